package headrace.spark;

import java.nio.*;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Direct memory for records, used again by later tasks: an executor holds one buffer per running task. */
final class BufferPool {
  static final int SIZE = 4 << 20;
  private static final ConcurrentLinkedQueue<ByteBuffer> FREE = new ConcurrentLinkedQueue<>();

  private BufferPool() {}

  /** A buffer of at least that many bytes. Those above the usual size are not kept. */
  static ByteBuffer take(int size) {
    ByteBuffer found = size <= SIZE ? FREE.poll() : null;
    return found != null ? found.clear().order(ByteOrder.BIG_ENDIAN) : ByteBuffer.allocateDirect(Math.max(size, SIZE));
  }

  static void release(ByteBuffer buffer) {
    if (buffer.isDirect() && buffer.capacity() == SIZE) FREE.add(buffer);
  }
}
