package headrace.spark;

import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;

import static java.nio.charset.StandardCharsets.UTF_8;

/** The part of msgpack that the native protocol uses: maps, lists, text, bytes and whole numbers. */
final class MessagePack {
  private MessagePack() {}

  static byte[] pack(Object value) {
    var bytes = new ByteArrayOutputStream();
    try {
      write(new DataOutputStream(bytes), value);
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
    return bytes.toByteArray();
  }

  private static void write(DataOutputStream out, Object value) throws IOException {
    if (value instanceof Boolean flag) {
      out.writeByte(flag ? 0xc3 : 0xc2);
    } else if (value instanceof Number number) {
      out.writeByte(0xd3);
      out.writeLong(number.longValue());
    } else if (value instanceof String text) {
      byte[] utf8 = text.getBytes(UTF_8);
      out.writeByte(0xdb);
      out.writeInt(utf8.length);
      out.write(utf8);
    } else if (value instanceof List<?> list) {
      out.writeByte(0xdd);
      out.writeInt(list.size());
      for (Object one : list) write(out, one);
    } else if (value instanceof Map<?, ?> map) {
      out.writeByte(0xdf);
      out.writeInt(map.size());
      for (var entry : map.entrySet()) {
        write(out, entry.getKey());
        write(out, entry.getValue());
      }
    } else {
      throw new IllegalArgumentException("msgpack: " + value);
    }
  }

  /** The value at the buffer's position. Bytes are slices of the buffer, not copies. */
  static Object unpack(ByteBuffer in) {
    int code = in.get() & 0xff;
    if (code < 0x80 || code >= 0xe0) return (long) (byte) code;
    if (code < 0x90) return map(in, code & 15);
    if (code < 0xa0) return list(in, code & 15);
    if (code < 0xc0) return text(in, code & 31);
    return switch (code) {
      case 0xc0 -> null;
      case 0xc2 -> false;
      case 0xc3 -> true;
      case 0xc4, 0xc5, 0xc6 -> bytes(in, length(in, code - 0xc4));
      case 0xca -> (double) in.getFloat();
      case 0xcb -> in.getDouble();
      case 0xcc, 0xcd, 0xce -> Integer.toUnsignedLong(length(in, code - 0xcc));
      case 0xcf, 0xd3 -> in.getLong();
      case 0xd0 -> (long) in.get();
      case 0xd1 -> (long) in.getShort();
      case 0xd2 -> (long) in.getInt();
      case 0xd9, 0xda, 0xdb -> text(in, length(in, code - 0xd9));
      case 0xdc, 0xdd -> list(in, length(in, code - 0xdb));
      case 0xde, 0xdf -> map(in, length(in, code - 0xdd));
      default -> throw new IllegalArgumentException("msgpack: type " + code);
    };
  }

  /** An unsigned number of 1, 2 or 4 bytes. */
  static int length(ByteBuffer in, int power) {
    return power == 0 ? in.get() & 0xff : power == 1 ? in.getShort() & 0xffff : in.getInt();
  }

  private static ByteBuffer bytes(ByteBuffer in, int size) {
    var found = in.slice(in.position(), size);
    in.position(in.position() + size);
    return found;
  }

  private static String text(ByteBuffer in, int size) {
    return UTF_8.decode(bytes(in, size)).toString();
  }

  private static List<Object> list(ByteBuffer in, int size) {
    var found = new ArrayList<>(Math.min(size, 1024));
    for (int i = 0; i < size; i++) found.add(unpack(in));
    return found;
  }

  private static Map<String, Object> map(ByteBuffer in, int size) {
    var found = new LinkedHashMap<String, Object>();
    for (int i = 0; i < size; i++) found.put(String.valueOf(unpack(in)), unpack(in));
    return found;
  }
}
