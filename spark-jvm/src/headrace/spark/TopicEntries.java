package headrace.spark;

import java.util.*;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Messages of topics as columns: a fixed head with flags and lengths, then the fields. */
final class TopicEntries implements MessageReader.ContentColumns {
  private static final int KEY = 1, TAGS = 2, SOURCE_IP = 4, MESSAGE_ID = 8, BORN = 16;
  private static final int BORN_AT = 16, FIELDS_AT = 32, PROPERTIES_LENGTH_AT = 12;
  private static final UTF8String TOKEN_NAME = UTF8String.fromString("token"), IP_NAME = UTF8String.fromString("source_ip");
  private static final List<String> IN_ORDER = List.of("key", "tags", "message_id", "token", "source_ip", "properties", "body");
  private final MessageReader reader;
  private final String priority;
  private int fields; // from the first one on, that are shown
  private final MessageColumn.Properties properties = new MessageColumn.Properties(this::fill);

  TopicEntries(MessageReader reader, String priority) {
    this.reader = reader;
    this.priority = priority;
  }

  @Override public void reset() { properties.reset(); }

  @Override
  public ColumnVector column(String name) {
    fields = Math.max(fields, IN_ORDER.indexOf(name) + 1);
    return switch (name) {
      case "priority" -> MessageColumn.constant(priority);
      case "key" -> new MessageColumn(DataTypes.StringType) {
        @Override public boolean isNullAt(int row) { return lacks(row, KEY); }
        @Override public UTF8String getUTF8String(int row) { return field(row, 0); }
      };
      case "tags" -> new MessageColumn(DataTypes.StringType) {
        @Override public boolean isNullAt(int row) { return lacks(row, TAGS); }
        @Override public UTF8String getUTF8String(int row) { return field(row, 1); }
      };
      case "message_id" -> new MessageColumn(DataTypes.StringType) {
        @Override public boolean isNullAt(int row) { return lacks(row, MESSAGE_ID); }
        @Override public UTF8String getUTF8String(int row) { return field(row, 2); }
      };
      case "born" -> new MessageColumn(DataTypes.TimestampType) {
        @Override public boolean isNullAt(int row) { return lacks(row, BORN); }
        @Override public long getLong(int row) { return Platform.getLong(null, reader.contents[row] + BORN_AT) * 1000; }
      };
      case "properties" -> properties;
      case "body" -> new MessageColumn(DataTypes.BinaryType) {
        @Override
        public byte[] getBinary(int row) {
          long entry = reader.contents[row], start = tableEnd(entry);
          return Texts.bytes(start, (int) (entry + reader.lengths[row] - start));
        }
      };
      default -> throw new IllegalArgumentException(name);
    };
  }

  private boolean lacks(int row, int flag) {
    return (Platform.getByte(null, reader.contents[row] + 1) & flag) == 0;
  }

  /** Length of a field: 0 key, 1 tags, 2 message id, 3 token, 4 source ip. */
  private static int length(long entry, int field) {
    return Platform.getShort(null, entry + 2 + 2 * field) & 0xffff;
  }

  private static long start(long entry, int field) {
    long start = entry + FIELDS_AT;
    for (int before = 0; before < field; before++) start += length(entry, before);
    return start;
  }

  private UTF8String field(int row, int field) {
    long entry = reader.contents[row];
    return Texts.at(start(entry, field), length(entry, field));
  }

  @Override
  public boolean isWhole(long entry, int length, int there) {
    if (there < FIELDS_AT || tableEnd(entry) > entry + length) return false;
    return there == length || (fields > 5 ? tableEnd(entry) : start(entry, fields)) <= entry + there;
  }

  private static long tableEnd(long entry) {
    long four = Platform.getLong(null, entry + 2); // lengths: this is done for every message
    return entry + FIELDS_AT + (four & 0xffff) + (four >>> 16 & 0xffff) + (four >>> 32 & 0xffff) + (four >>> 48) + length(entry, 4)
        + Integer.toUnsignedLong(Platform.getInt(null, entry + PROPERTIES_LENGTH_AT));
  }

  @Override public boolean hasTag(int row, Set<UTF8String> tags) { return !lacks(row, TAGS) && tags.contains(field(row, 1)); }

  /** Token and address of the producer where they are known, then the properties of the message. */
  private void fill() {
    for (int row = 0; row < reader.rows; row++) {
      long entry = reader.contents[row];
      boolean hasToken = length(entry, 3) > 0, hasIp = !lacks(row, SOURCE_IP);
      if (hasToken) properties.add(TOKEN_NAME, field(row, 3));
      if (hasIp) properties.add(IP_NAME, field(row, 4));
      long table = start(entry, 5), end = tableEnd(entry);
      if (table < end && !addTable(table, end, hasToken, hasIp)) throw reader.malformed(reader.offsets[row]);
      properties.endRow();
    }
  }

  /** A msgpack map of text to text, read where it is; false when it is none, or does not end there. */
  private boolean addTable(long at, long end, boolean hasToken, boolean hasIp) {
    int code = Platform.getByte(null, at) & 0xff;
    if (code < 0x80 || code > 0x8f && code < 0xde || code > 0xdf) return false;
    int width = code <= 0x8f ? 0 : code == 0xde ? 2 : 4;
    int count = width == 0 ? code & 15 : at + width < end ? number(at + 1, width) : -1;
    at += 1 + width;
    for (int i = 0; i < count; i++) {
      UTF8String name = text(at, end), value = name == null ? null : text(textEnd, end);
      if (value == null) return false;
      at = textEnd;
      boolean isTaken = hasToken && name.equals(TOKEN_NAME) || hasIp && name.equals(IP_NAME);
      properties.add(isTaken ? UTF8String.fromString("header." + name) : name, value);
    }
    return at == end && count >= 0;
  }

  private long textEnd; // of the text that was read last

  /** Null: it is no text, or goes past the end. */
  private UTF8String text(long at, long end) {
    int code = at < end ? Platform.getByte(null, at) & 0xff : 0;
    if (code < 0xa0 || code > 0xbf && code < 0xd9 || code > 0xdb) return null;
    int width = code < 0xc0 ? 0 : 1 << code - 0xd9;
    if (at + 1 + width > end) return null;
    int size = width == 0 ? code & 31 : number(at + 1, width);
    textEnd = at + 1 + width + Integer.toUnsignedLong(size);
    return textEnd > end ? null : Texts.at(at + 1 + width, size);
  }

  /** A big-endian number. */
  static int number(long at, int width) {
    int found = 0;
    for (int i = 0; i < width; i++) found = found << 8 | Platform.getByte(null, at + i) & 0xff;
    return found;
  }
}
