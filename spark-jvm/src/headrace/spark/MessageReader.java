package headrace.spark;

import headrace.spark.RecordBlocks.Block;
import headrace.spark.TaskPlan.ReadTask;
import io.netty.util.internal.PlatformDependent;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.zip.CRC32;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.vectorized.*;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The rows of one task. Checks every sum, and accounts for every offset that the broker named: each becomes a row, or the
 * read fails. A batch ends where its block ends, because its columns read from the block.
 */
final class MessageReader implements PartitionReader<ColumnarBatch> {
  static final int ROWS = 4096;
  private static final int SIZE_AT = 4, HEAD_SIZE_AT = 8, COUNT_AT = 16, TIME_AT = 24;
  private static final int EXCHANGE_LENGTH_AT = 42, KEY_LENGTH_AT = 43, NAMES_AT = 48;

  /** The rows of a batch: where the head of the record and the content of the message are in memory. */
  final long[] heads = new long[ROWS], contents = new long[ROWS], offsets = new long[ROWS];
  final int[] lengths = new int[ROWS];
  int rows;

  private final ReadTask task;
  private final boolean isStrict; // offsets of a topic have no holes
  private final Set<UTF8String> tags;
  private final MessageSelector selector; // null: every message
  private final RecordBlocks blocks;
  private final ContentColumns columns;
  private final Set<String> used = new LinkedHashSet<>(); // columns, by the query or here
  private final ColumnarBatch batch;
  private final CRC32 crc = new CRC32();
  private long limit; // of rows, pushed by the query
  private Block block;
  private ByteBuffer view; // of the block, for sums
  private long address; // of the block
  private int record; // of the block, the next
  private int[] seeds; // as bytes that have them as their sum
  private long seedsOf = -1;
  private long reached; // offset behind the last one that was named
  // The record in work.
  private long head, sums, table, content;
  private int message, stop;

  MessageReader(ReadOptions options, ReadTask task, StructType schema, boolean isStream, long limit) {
    this.task = task;
    this.limit = limit;
    isStrict = options.kind().equals("topic") && options.failOnDataLoss() && isStream;
    tags = options.tags() == null ? null : new HashSet<>();
    if (tags != null) options.tags().forEach(tag -> tags.add(UTF8String.fromString(tag)));
    reached = task.start();
    columns = options.kind().equals("topic") ? new TopicEntries(this, task.priority()) : new QueueMessages(this);
    selector = options.selector() == null ? null : new MessageSelector(options.condition(), this);
    ColumnVector[] found = new ColumnVector[schema.length()];
    for (int i = 0; i < found.length; i++) found[i] = column(schema.fields()[i].name());
    batch = new ColumnarBatch(found);
    if (tags != null) used.add("tags");
    blocks = new RecordBlocks(options, task, used, isStream);
  }

  /** The columns that a kind of destination reads from the contents of its messages. */
  interface ContentColumns {
    ColumnVector column(String name);

    /** Another batch begins. */
    void reset();

    /** Whether the fields of fixed size are there and the lengths in them fit; {@code there}: how much of the content is. */
    boolean isWhole(long content, int length, int there);

    boolean hasTag(int row, Set<UTF8String> tags);
  }

  ColumnVector column(String name) {
    used.add(name);
    return switch (name) {
      case "source" -> MessageColumn.constant(task.source());
      case "partition" -> new MessageColumn(DataTypes.IntegerType) {
        @Override public int getInt(int row) { return task.partition(); }
      };
      case "offset" -> new MessageColumn(DataTypes.LongType) {
        @Override public long getLong(int row) { return offsets[row]; }
      };
      case "timestamp" -> new MessageColumn(DataTypes.TimestampType) {
        @Override public long getLong(int row) { return Platform.getLong(null, heads[row] + TIME_AT) * 1000; }
      };
      case "exchange" -> new MessageColumn(DataTypes.StringType) {
        @Override
        public UTF8String getUTF8String(int row) {
          return Texts.at(heads[row] + NAMES_AT, Platform.getByte(null, heads[row] + EXCHANGE_LENGTH_AT) & 0xff);
        }
      };
      case "routing_key" -> new MessageColumn(DataTypes.StringType) {
        @Override
        public UTF8String getUTF8String(int row) {
          int exchange = Platform.getByte(null, heads[row] + EXCHANGE_LENGTH_AT) & 0xff;
          return Texts.at(heads[row] + NAMES_AT + exchange, Platform.getByte(null, heads[row] + KEY_LENGTH_AT) & 0xff);
        }
      };
      default -> columns.column(name);
    };
  }

  @Override
  public boolean next() throws IOException {
    rows = 0;
    while (rows == 0) {
      columns.reset();
      if (message >= stop && (block == null || record == block.size()) && !nextBlock()) return false;
      while (rows < ROWS && (message < stop || record < block.size())) {
        if (message >= stop) openRecord();
        readMessages();
      }
      if (selector != null) keepSelected();
    }
    rows = (int) Math.min(rows, limit);
    limit -= rows;
    batch.setNumRows(rows);
    return rows > 0;
  }

  /** Leaves the rows that the selector chooses. */
  private void keepSelected() {
    int kept = 0;
    for (int row = 0; row < rows; row++) {
      if (!selector.chooses(row)) continue;
      heads[kept] = heads[row];
      contents[kept] = contents[row];
      lengths[kept] = lengths[row];
      offsets[kept++] = offsets[row];
    }
    rows = kept;
    columns.reset();
  }

  private boolean nextBlock() throws IOException {
    block = limit == 0 ? null : blocks.next();
    if (block == null) {
      if (isStrict && reached != task.end() && limit > 0) throw lost();
      return false;
    }
    view = block.data().duplicate();
    if (!view.isDirect()) throw new IllegalStateException("records have no address");
    address = PlatformDependent.directBufferAddress(view);
    record = 0;
    if (seedsOf != block.seed()) {
      seeds = new int[] {Seeds.bytesWithSum((int) block.seed()), Seeds.bytesWithSum((int) block.seed() ^ 1)}; // records in a group have the second
      seedsOf = block.seed();
    }
    return true;
  }

  private SparkError lost() {
    return SparkError.dataLost("'" + task.source() + "' partition " + task.partition() + ": offsets " + reached + " to "
        + (task.end() - 1) + " could not be read");
  }

  /** The wanted part of the next record. */
  private void openRecord() {
    int at = (int) block.positions().get(record), room = view.capacity() - at;
    long first = block.firsts().get(record), low = block.lows().get(record), high = block.highs().get(record);
    head = address + at;
    long size = room < NAMES_AT ? 0 : Integer.toUnsignedLong(Platform.getInt(null, head + SIZE_AT));
    long headSize = room < NAMES_AT ? 0 : Integer.toUnsignedLong(Platform.getInt(null, head + HEAD_SIZE_AT));
    if (block.width() == RecordBlocks.WHOLE && size > room || headSize > room || headSize > size || headSize < NAMES_AT || !hasSum(at, (int) headSize)) throw damaged(low);
    long count = Integer.toUnsignedLong(Platform.getInt(null, head + COUNT_AT));
    recordEnd = head + (block.width() == RecordBlocks.WHOLE ? size : headSize + count * block.width());
    if (count * 8 > headSize - NAMES_AT || recordEnd > head + room || low < first || high > first + count || high <= low) throw damaged(low);
    if (low < reached || isStrict && low > reached) throw lost(); // named twice, or not at all
    table = head + headSize - 8 * count;
    sums = table + 4 * count;
    content = head + headSize;
    message = 0;
    stop = (int) (high - first);
    for (int wanted = (int) (low - first); message < wanted; message++) content += step(message);
    offset = low;
    record++;
  }

  private long offset, recordEnd; // of the next message; of the record in work

  /** From a content to the next one. */
  private int step(int number) {
    return block.width() == RecordBlocks.WHOLE ? length(number) : block.width();
  }

  private int length(int number) {
    return Platform.getInt(null, table + 4L * number);
  }

  /** Whether the head has its sum, as a record on its own or within a group. */
  private boolean hasSum(int at, int headSize) {
    int expected = Platform.getInt(null, head);
    for (int seed : seeds) {
      crc.reset();
      for (int shift = 0; shift < 32; shift += 8) crc.update(seed >>> shift);
      crc.update(view.limit(at + headSize).position(at + 4));
      if ((int) crc.getValue() == expected) return true;
    }
    return false;
  }

  private void readMessages() {
    int row = rows, width = block.width();
    for (; message < stop && row < ROWS; message++) {
      heads[row] = head;
      offsets[row] = offset;
      if (width != 0) {
        int length = length(message), there = width == RecordBlocks.WHOLE ? length : Math.min(length, width);
        if (length < 0 || content + there > recordEnd) throw damaged(offset);
        if (width == RecordBlocks.WHOLE && sum(length) != Platform.getInt(null, sums + 4L * message)) throw damaged(offset);
        if (!columns.isWhole(content, length, there)) throw malformed(offset);
        contents[row] = content;
        lengths[row] = length;
        content += step(message);
      }
      if (tags == null || columns.hasTag(row, tags)) row++;
      offset++;
    }
    reached = offset;
    rows = row;
  }

  /** Of the content in work. */
  private int sum(int length) {
    int at = (int) (content - address);
    crc.reset();
    crc.update(view.limit(at + length).position(at));
    return (int) crc.getValue();
  }

  private SparkError damaged(long at) {
    return SparkError.of("store: messages of " + task.source() + " cannot be read, the first has offset " + at
        + ": their checksums are wrong. run `headrace fsck`; nothing behind them was read");
  }

  /** The sum fits, but the fields do not fit into the content. */
  SparkError malformed(long at) {
    return SparkError.of("store: messages of " + task.source() + " cannot be read, the first has offset " + at
        + ": its content is malformed; nothing behind it was read");
  }

  @Override public ColumnarBatch get() { return batch; }
  @Override public void close() throws IOException { blocks.close(); }

  /** Seeds of checksums: {@link CRC32} cannot begin with one, so bytes with that sum go first. */
  private static final class Seeds {
    private static final int POLYNOMIAL = 0xEDB88320;

    /** The four bytes, lowest first, whose sum is {@code seed}. */
    static int bytesWithSum(int seed) {
      int state = ~seed;
      for (int bit = 0; bit < 32; bit++) state = state < 0 ? (state ^ POLYNOMIAL) << 1 | 1 : state << 1; // 32 steps back
      return ~state;
    }
  }
}
