package headrace.spark;

import java.util.*;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Messages of queues as columns: a content is an AMQP header frame, then body frames. */
final class QueueMessages implements MessageReader.ContentColumns {
  private static final int PAYLOAD = 7, FRAME = 8, SIZE_AT = PAYLOAD + 4, FLAGS_AT = PAYLOAD + 12;
  private static final int HEADERS = 2, MODE = 3, PRIORITY = 4, MESSAGE_ID = 8, TIMESTAMP = 9; // numbers of the properties
  private static final long LAST_SECOND = 253_402_300_799L; // of the year 9999
  private static final int CACHE_BYTES = 4 << 20;
  private static final UTF8String[] NAMES = texts("content_type", "content_encoding", "headers", "delivery_mode", "priority",
      "correlation_id", "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id");
  private static final UTF8String[] PRIORITIES = texts("low", "middle", "high");
  private static final UTF8String[] DIGITS = new UTF8String[256];

  static {
    for (int i = 0; i < DIGITS.length; i++) DIGITS[i] = UTF8String.fromString(String.valueOf(i));
  }

  private final MessageReader reader;
  private final MessageColumn.Properties properties = new MessageColumn.Properties(() -> walk(true));
  private boolean isWalked;
  // Of each row, when they are walked: where the id is, the timestamp, the priority.
  private final long[] ids = new long[MessageReader.ROWS], seconds = new long[MessageReader.ROWS];
  private final byte[] priorities = new byte[MessageReader.ROWS];
  private final Map<UTF8String, HeaderTexts> tables = new HashMap<>(); // by their bytes
  private long cached;
  private UTF8String lastTable;
  private HeaderTexts lastTexts;

  QueueMessages(MessageReader reader) {
    this.reader = reader;
  }

  private static UTF8String[] texts(String... all) {
    UTF8String[] found = new UTF8String[all.length];
    for (int i = 0; i < all.length; i++) found[i] = UTF8String.fromString(all[i]);
    return found;
  }

  @Override
  public void reset() {
    isWalked = false;
    properties.reset();
  }

  @Override
  public boolean isWhole(long content, int length, int there) {
    return there > FLAGS_AT + 2 && headerEnd(content) > content + FLAGS_AT + 1 && headerEnd(content) < content + there;
  }

  private static long headerEnd(long content) {
    return content + PAYLOAD + Integer.toUnsignedLong(number(content + 3, 4));
  }

  @Override
  public boolean hasTag(int row, Set<UTF8String> tags) {
    return false; // queues have no tags
  }

  @Override
  public ColumnVector column(String name) {
    return switch (name) {
      case "key", "tags" -> MessageColumn.constant(null);
      case "priority" -> new MessageColumn(DataTypes.StringType) {
        @Override
        public UTF8String getUTF8String(int row) {
          walked();
          return PRIORITIES[priorities[row]];
        }
      };
      case "message_id" -> new MessageColumn(DataTypes.StringType) {
        @Override
        public boolean isNullAt(int row) {
          walked();
          return ids[row] == 0;
        }

        @Override
        public UTF8String getUTF8String(int row) {
          walked();
          return Texts.at(ids[row] + 1, Platform.getByte(null, ids[row]) & 0xff);
        }
      };
      case "born" -> new MessageColumn(DataTypes.TimestampType) {
        @Override
        public boolean isNullAt(int row) {
          walked();
          return seconds[row] < 0 || seconds[row] > LAST_SECOND; // no calendar has it
        }

        @Override
        public long getLong(int row) {
          walked();
          return seconds[row] * 1_000_000;
        }
      };
      case "properties" -> properties;
      case "body" -> new MessageColumn(DataTypes.BinaryType) {
        @Override public byte[] getBinary(int row) { return body(row); }
      };
      default -> throw new IllegalArgumentException(name);
    };
  }

  private byte[] body(int row) {
    long content = reader.contents[row], at = headerEnd(content) + 1, end = content + reader.lengths[row];
    long whole = Long.reverseBytes(Platform.getLong(null, content + SIZE_AT));
    if (whole < 0 || whole > end - at) throw reader.malformed(reader.offsets[row]);
    byte[] found = new byte[(int) whole];
    for (int have = 0, size; have < found.length; have += size, at += FRAME + size) {
      size = at + FRAME > end ? -1 : number(at + 3, 4);
      if (size < 0 || size > found.length - have || at + FRAME + size > end) throw reader.malformed(reader.offsets[row]);
      Platform.copyMemory(null, at + PAYLOAD, found, Platform.BYTE_ARRAY_OFFSET + have, size);
    }
    return found;
  }

  private static int number(long at, int width) {
    return TopicEntries.number(at, width);
  }

  private void walked() {
    if (!isWalked) walk(false);
  }

  /** Finds the properties of every row; the map of them is made only when a query uses it. */
  private void walk(boolean isMap) {
    isWalked = true;
    for (int row = 0; row < reader.rows; row++) {
      long content = reader.contents[row], at = content + FLAGS_AT + 2, end = headerEnd(content), table = 0;
      int flags = number(content + FLAGS_AT, 2);
      ids[row] = 0;
      seconds[row] = -1;
      priorities[row] = 1;
      for (int i = 0, bit = 1 << 15; i < NAMES.length; i++, bit >>= 1) {
        if ((flags & bit) == 0) continue;
        if (at >= end) throw reader.malformed(reader.offsets[row]);
        if (i == HEADERS) {
          table = at;
          at += 4 + Integer.toUnsignedLong(number(at, 4));
        } else if (i == MODE || i == PRIORITY) {
          int value = number(at++, 1);
          if (i == PRIORITY) priorities[row] = (byte) (value < 4 ? 0 : value < 6 ? 1 : 2);
          if (isMap) properties.add(NAMES[i], DIGITS[value]);
        } else if (i == TIMESTAMP) {
          seconds[row] = Long.reverseBytes(Platform.getLong(null, at));
          at += 8;
          if (isMap) properties.add(NAMES[i], UTF8String.fromString(Long.toString(seconds[row])));
        } else {
          int size = number(at, 1);
          if (i == MESSAGE_ID) ids[row] = at;
          if (isMap && at + size < end) properties.add(NAMES[i], Texts.at(at + 1, size));
          at += 1 + size;
        }
      }
      if (at != end) throw reader.malformed(reader.offsets[row]);
      if (isMap && table != 0) addHeaders(row, table, flags);
      if (isMap) properties.endRow();
    }
  }

  /** The headers under their own names, or behind {@code header.} where a property has the name. */
  private void addHeaders(int row, long table, int flags) {
    HeaderTexts texts;
    try {
      texts = texts(UTF8String.fromAddress(null, table + 4, number(table, 4)));
    } catch (RuntimeException | StackOverflowError undecodable) {
      throw reader.malformed(reader.offsets[row]);
    }
    for (int i = 0; i < texts.names().length; i++) {
      UTF8String name = texts.names()[i];
      int own = texts.numbers()[i];
      boolean isTaken = own >= 0 && own != HEADERS && (flags & 1 << 15 - own) != 0;
      properties.add(isTaken ? UTF8String.fromString("header." + name) : name, texts.values()[i]);
    }
  }

  /** Each distinct table is decoded once, as long as there is room to keep it. */
  private HeaderTexts texts(UTF8String table) {
    if (table.equals(lastTable)) return lastTexts;
    HeaderTexts found = tables.get(table);
    if (found == null) {
      UTF8String key = table.copy();
      found = HeaderTexts.decode(key.getBytes(), NAMES);
      cached += 2L * key.numBytes() + 200;
      if (cached > CACHE_BYTES) {
        tables.clear();
        cached = 0;
      }
      tables.put(key, found);
      lastTable = key;
    } else {
      lastTable = table.copy();
    }
    lastTexts = found;
    return found;
  }
}
