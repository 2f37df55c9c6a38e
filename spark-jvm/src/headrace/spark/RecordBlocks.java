package headrace.spark;

import headrace.spark.BulkConnection.ConnectionClosed;
import headrace.spark.TaskPlan.ReadTask;
import java.io.*;
import java.nio.*;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.util.*;

import static headrace.spark.BulkConnection.fields;

/**
 * Whole records of one task in direct memory, a block at a time: read from the segment files on the broker's machine,
 * received over the connection elsewhere. A block is valid until the next one is read.
 */
final class RecordBlocks implements Closeable {
  static final int WHOLE = -1;
  private static final int WINDOW = BufferPool.SIZE, GAP = 1 << 16, LOCATED_AGAIN = 3, HEAD = 12;
  private static final long PATIENCE_MS = 60_000;
  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");

  /**
   * Bytes of records, and which records of them: where each begins, its first offset, and which of its offsets are wanted.
   * {@code width}: how much is there of every content behind the head of its record, if not all of it, or WHOLE.
   */
  record Block(ByteBuffer data, long seed, int width, int size, LongBuffer positions, LongBuffer firsts, LongBuffer lows, LongBuffer highs) {}

  private final ReadOptions options;
  private final ReadTask task;
  private final List<String> columns;
  private final boolean areHeads; // of records, in which everything is
  private final Map<String, Object> wanted;
  private final long patienceMs;
  private BulkConnection connection;
  private boolean isNear, isAsked; // whether files may be read here; whether an answer is under way
  private long received; // messages of that answer
  private long at, lastProgress = System.currentTimeMillis();
  // Of files: what was located and not read, and the segment that is open.
  private Iterator<?> pieces = List.of().iterator(), files = List.of().iterator();
  private long next;
  private FileChannel file;
  private Block piece;
  private int row;
  private ByteBuffer window;
  private int headSize = 1 << 12; // of the record before

  /** {@code columns}: what is to be read of the messages. */
  RecordBlocks(ReadOptions options, ReadTask task, Set<String> columns, boolean isStream) {
    this.options = options;
    this.task = task;
    this.columns = columns.isEmpty() ? List.of("offset") : List.copyOf(columns);
    areHeads = ReadOptions.IN_HEADS.get(options.kind()).containsAll(columns);
    this.at = task.start();
    this.patienceMs = isStream ? PATIENCE_MS : 0;
    wanted = fields(options.kind(), task.source(), "partition", task.partition(), "uuid", task.uuid(), "end", task.end());
    if (isStream && options.failOnDataLoss()) {
      wanted.put("complete", true);
      if (task.epoch() != null) wanted.put("epoch", task.epoch());
    }
    connect();
  }

  private void connect() {
    connection = BulkConnection.open(options.url(), patienceMs);
    isNear = connection.isNear && !ReadOptions.isForced("network");
    isAsked = false;
    pieces = List.of().iterator();
    piece = null;
    next = at;
  }

  /** The next block; null at the end of the task. Streams wait for a broker that is started again. */
  Block next() throws IOException {
    while (true) {
      try {
        if (isNear && !located()) isNear = false;
        Block found = !isNear ? fromNetwork() : piece == null ? null : read();
        lastProgress = System.currentTimeMillis();
        if (found != null) at = found.highs.get(found.size - 1);
        return found;
      } catch (ConnectionClosed error) {
        if (System.currentTimeMillis() - lastProgress >= patienceMs) throw SparkError.of(error.getMessage());
        connection.close();
        BulkConnection.pause();
        connect();
      }
    }
  }

  private Block fromNetwork() throws IOException {
    while (at < task.end() || isAsked) {
      if (!isAsked) {
        var request = fields("start", at, "columns", columns, "direct", true);
        request.putAll(wanted);
        connection.send(BulkConnection.RECORDS, request);
        isAsked = true;
        received = 0;
      }
      var answer = connection.receive();
      connection.keepAlive();
      if (Boolean.TRUE.equals(answer.get("last"))) {
        isAsked = false;
        long messages = (Long) answer.get("messages");
        if (received != messages) {
          throw SparkError.of("the broker has " + messages + " messages of '" + task.source() + "' before offset " + answer.get("next")
              + " and sent " + received);
        }
        at = (Long) answer.get("next");
        continue;
      }
      int width = answer.get("width") instanceof Long cut ? cut.intValue() : WHOLE;
      Block found = block((ByteBuffer) answer.get("data"), (Long) answer.get("seed"), width, answer.get("positions"),
          answer.get("first_offsets"), answer.get("low_offsets"), answer.get("high_offsets"));
      for (int i = 0; i < found.size; i++) received += found.highs.get(i) - found.lows.get(i);
      return found;
    }
    return null;
  }

  private static Block block(ByteBuffer data, long seed, int width, Object... columns) {
    LongBuffer[] found = new LongBuffer[columns.length];
    for (int i = 0; i < found.length; i++) found[i] = ((ByteBuffer) columns[i]).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
    return new Block(data, seed, width, found[0].remaining(), found[0], found[1], found[2], found[3]);
  }

  // -- files ------------------------------------------------------------------------------------

  /** Opens the segment with the next records; at the end of the task there is none. False: files cannot be read here. */
  private boolean located() throws IOException {
    for (int attempts = 0; piece == null || row == piece.size; ) {
      closeFile();
      if (pieces.hasNext()) {
        if (open()) continue;
        pieces = List.of().iterator(); // gone meanwhile: locate the records again
        next = at;
        if (++attempts == LOCATED_AGAIN) return false;
      }
      at = Math.max(at, next);
      if (at >= task.end()) return true;
      if (!locate()) return false;
    }
    return true;
  }

  private boolean locate() throws IOException {
    var request = fields("start", at, "seeds", true, "columns", columns);
    request.putAll(wanted);
    Map<String, Object> found;
    try {
      found = connection.call(BulkConnection.LOCATE, request);
    } catch (SparkError error) {
      if (error.getMessage().contains("not_implemented")) return false;
      throw error;
    }
    var packed = (ByteBuffer) found.get("job"); // valid until the next call: a copy is kept
    var job = (Map<?, ?>) MessagePack.unpack(ByteBuffer.allocate(packed.remaining()).put(packed).flip());
    try {
      if (!Files.readString(BOOT_ID).strip().equals(found.get("boot"))) return false; // behind a tunnel
    } catch (IOException error) {
      return false;
    }
    pieces = ((List<?>) job.get("pieces")).iterator();
    files = ((List<?>) found.get("files")).iterator();
    next = (Long) job.get("next");
    return true;
  }

  /** Opens the segment of the next piece; false when it is gone, not ours, or may not be read. */
  private boolean open() throws IOException {
    closeFile();
    var columns = (List<?>) pieces.next(); // base, seed, positions, first, low and high offsets
    var known = (List<?>) files.next(); // path, device, inode
    Path path = Path.of((String) known.get(0));
    try {
      file = FileChannel.open(path);
      boolean isOurs = known.get(1).equals(Files.getAttribute(path, "unix:dev")) && known.get(2).equals(Files.getAttribute(path, "unix:ino"));
      if (!isOurs) return false;
    } catch (IOException error) {
      return false;
    }
    long base = (Long) columns.get(0);
    piece = block(null, (Long) columns.get(1), WHOLE, columns.get(2), columns.get(3), columns.get(4), columns.get(5));
    for (int i = 0; i < piece.size; i++) piece.positions.put(i, piece.positions.get(i) - base);
    row = 0;
    return true;
  }

  /** The next records, or their heads if these are enough. */
  private Block read() throws IOException {
    if (window == null) window = BufferPool.take(WINDOW);
    Block found = areHeads ? heads() : null;
    if (found == null) found = records();
    row += found.size;
    connection.keepAlive();
    return found;
  }

  /** As many records as lie near each other and fit into one window; a larger one has a window of its own. */
  private Block records() throws IOException {
    long start = piece.positions.get(row);
    int last = row;
    while (last + 1 < piece.size && near(piece.positions.get(last + 1), piece.positions.get(last), start)) last++;
    long end = piece.positions.get(last), following = last + 1 < piece.size ? piece.positions.get(last + 1) - end : 0;
    end += following > 0 && following < WINDOW / 2 ? following : GAP; // the next record begins there, perhaps behind others
    int size = (int) Math.min(end - start, file.size() - start);
    ByteBuffer data = filled(size, start);
    int stop = row;
    for (int i = row; i <= last; i++) {
      long place = piece.positions.get(i) - start, length = size - place < 8 ? Integer.MAX_VALUE : Integer.toUnsignedLong(data.getInt((int) place + 4));
      if (place + length > size) break;
      stop = i + 1;
    }
    if (stop == row) { // longer than the window, or damaged
      long length = size < 8 ? 0 : Integer.toUnsignedLong(data.getInt(4));
      size = (int) Math.min(Math.min(length, file.size() - start), Integer.MAX_VALUE - 8);
      data = filled(size, start);
      stop = row + 1;
    }
    var positions = LongBuffer.allocate(stop - row);
    for (int i = row; i < stop; i++) positions.put(i - row, piece.positions.get(i) - start);
    return next(data, WHOLE, positions);
  }

  /** The heads of records one behind the other; null where records are small, and where a head is very large, or damaged. */
  private Block heads() throws IOException {
    var positions = LongBuffer.allocate(piece.size - row);
    ByteBuffer data = window.clear();
    for (int i = row; i < piece.size; i++) {
      long start = piece.positions.get(i), following = i + 1 < piece.size ? piece.positions.get(i + 1) : Long.MAX_VALUE;
      int begin = data.position(), room = Math.min(data.capacity() - begin, headSize);
      if (following > start && following - start < GAP || room < HEAD) break;
      fill(data.limit(begin + room), start);
      long size = data.position() - begin < HEAD ? Long.MAX_VALUE : Integer.toUnsignedLong(data.getInt(begin + 8));
      boolean hasRoom = size <= data.capacity() - begin;
      if (hasRoom && size > room) fill(data.limit(begin + (int) size), start + room);
      data.clear().position(hasRoom ? begin + (int) size : begin);
      if (!hasRoom) break;
      headSize = (int) size;
      positions.put(begin);
    }
    return positions.position() == 0 ? null : next(data.flip(), 0, positions.flip());
  }

  private Block next(ByteBuffer data, int width, LongBuffer positions) {
    int count = positions.remaining();
    return new Block(data.slice().order(ByteOrder.LITTLE_ENDIAN), piece.seed, width, count, positions, piece.firsts.slice(row, count),
        piece.lows.slice(row, count), piece.highs.slice(row, count));
  }

  private static boolean near(long position, long before, long start) {
    return position >= before && position - before <= GAP * 4L && position - start <= WINDOW - GAP;
  }

  private ByteBuffer filled(int size, long start) throws IOException {
    return fill(size <= WINDOW ? window.clear().limit(size) : ByteBuffer.allocateDirect(size), start).flip();
  }

  /** Reads up to the limit of the buffer, or the end of the file. */
  private ByteBuffer fill(ByteBuffer data, long start) throws IOException {
    data.order(ByteOrder.LITTLE_ENDIAN);
    long offset = start - data.position();
    try {
      while (data.hasRemaining() && file.read(data, offset + data.position()) > 0) continue;
    } catch (IOException error) {
      BulkConnection.checkInterrupted();
      throw SparkError.of("store: messages of " + task.source() + " cannot be read: the disk fails at byte " + start
          + " of a segment, or behind it. `headrace fsck` names them; nothing behind them was read");
    }
    return data;
  }

  private void closeFile() throws IOException {
    if (file != null) file.close();
    file = null;
    piece = null;
  }

  @Override
  public void close() throws IOException {
    closeFile();
    connection.close(); // its buffer is used again: no batch may be in use
    if (window != null) BufferPool.release(window);
    window = null;
  }
}
