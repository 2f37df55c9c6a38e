package headrace.spark;

import java.util.Arrays;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Text in memory that others wrote: what is not UTF-8 is shown with replacement characters. */
final class Texts {
  private static final long HIGH_BITS = 0x8080808080808080L;

  private Texts() {}

  /** The text itself where it is, if it is valid; otherwise a repaired copy. At least 8 bytes of the record come before it. */
  static UTF8String at(long address, int size) {
    if (size == 0) return UTF8String.EMPTY_UTF8;
    long last = Platform.getLong(null, address + size - 8); // little-endian: what comes before a short text is below
    long high = size < 8 ? last >>> 8 * (8 - size) : last;
    for (int i = 0; i + 8 < size; i += 8) high |= Platform.getLong(null, address + i);
    return (high & HIGH_BITS) == 0 ? UTF8String.fromAddress(null, address, size) : checked(address, size);
  }

  private static UTF8String checked(long address, int size) {
    byte[] bytes = bytes(address, size);
    byte[] shown = repaired(bytes);
    return shown == bytes ? UTF8String.fromAddress(null, address, size) : UTF8String.fromBytes(shown);
  }

  static byte[] bytes(long address, int size) {
    byte[] found = new byte[size];
    Platform.copyMemory(null, address, found, Platform.BYTE_ARRAY_OFFSET, size);
    return found;
  }

  /** The same array if it is UTF-8; one U+FFFD for each longest beginning of a character that does not go on. */
  static byte[] repaired(byte[] in) {
    byte[] out = null;
    int used = 0;
    for (int at = 0, size; at < in.length; at += size) {
      int lead = in[at] & 0xff;
      int length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
      int low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
      for (size = 1; size < length && at + size < in.length; size++) {
        int next = in[at + size] & 0xff;
        if (next < low || next > high) break;
        low = 0x80;
        high = 0xbf;
      }
      boolean isWhole = size == length;
      if (!isWhole && out == null) {
        out = new byte[in.length * 3];
        System.arraycopy(in, 0, out, 0, used = at);
      }
      if (out == null) continue;
      byte[] shown = isWhole ? in : REPLACEMENT;
      int from = isWhole ? at : 0, count = isWhole ? size : 3;
      System.arraycopy(shown, from, out, used, count);
      used += count;
    }
    return out == null ? in : Arrays.copyOf(out, used);
  }

  private static final byte[] REPLACEMENT = {(byte) 0xef, (byte) 0xbf, (byte) 0xbd};
}
