package headrace.spark;

import java.math.*;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.spark.unsafe.types.UTF8String;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

/** An AMQP table of headers as text: nested tables and lists as JSON, everything as Python shows it. */
record HeaderTexts(UTF8String[] names, UTF8String[] values, int[] numbers) {

  /** Text is kept as its bytes until it is shown: one char for each. */
  private record Raw(String bytes) {}

  /** {@code numbers}: which of the known names each header has, or -1. */
  static HeaderTexts decode(byte[] table, UTF8String[] known) {
    var shown = new LinkedHashMap<UTF8String, UTF8String>();
    table(ByteBuffer.wrap(table)).forEach((name, value) -> shown.put(utf8(name), utf8(text(value))));
    int[] numbers = shown.keySet().stream().mapToInt(List.of(known)::indexOf).toArray();
    return new HeaderTexts(shown.keySet().toArray(UTF8String[]::new), shown.values().toArray(UTF8String[]::new), numbers);
  }

  private static UTF8String utf8(String raw) {
    return UTF8String.fromBytes(Texts.repaired(raw.getBytes(ISO_8859_1)));
  }

  // -- values -----------------------------------------------------------------------------------

  /** Of several fields with one name the first counts. */
  private static Map<String, Object> table(ByteBuffer in) {
    var found = new LinkedHashMap<String, Object>();
    while (in.hasRemaining()) {
      String name = raw(in, in.get() & 0xff);
      Object value = value(in);
      if (!found.containsKey(name)) found.put(name, value);
    }
    return found;
  }

  private static String raw(ByteBuffer in, int size) {
    return ISO_8859_1.decode(part(in, size)).toString();
  }

  private static ByteBuffer part(ByteBuffer in, int size) {
    var found = in.slice(in.position(), size);
    in.position(in.position() + size);
    return found;
  }

  private static Object value(ByteBuffer in) {
    char code = (char) in.get();
    return switch (code) {
      case 't' -> in.get() != 0;
      case 'b' -> (long) in.get();
      case 'B' -> in.get() & 0xffL;
      case 's' -> (long) in.getShort();
      case 'u' -> in.getShort() & 0xffffL;
      case 'I' -> (long) in.getInt();
      case 'i' -> in.getInt() & 0xffffffffL;
      case 'l', 'L' -> in.getLong();
      case 'T' -> new java.math.BigInteger(Long.toUnsignedString(in.getLong()));
      case 'f' -> (double) in.getFloat();
      case 'd' -> in.getDouble();
      case 'D' -> {
        int scale = in.get() & 0xff;
        yield BigDecimal.valueOf(in.getInt(), scale);
      }
      case 'V' -> null;
      case 'S', 'x' -> new Raw(raw(in, in.getInt()));
      case 'F' -> table(part(in, in.getInt()));
      case 'A' -> {
        var all = part(in, in.getInt());
        var found = new ArrayList<Object>();
        while (all.hasRemaining()) found.add(value(all));
        yield found;
      }
      default -> throw SparkError.of("unknown field type " + (int) code);
    };
  }

  // -- text, one char for each byte -------------------------------------------------------------

  private static String text(Object value) {
    if (value instanceof Raw text) return text.bytes;
    if (value instanceof Boolean flag) return flag ? "True" : "False";
    if (value instanceof Double number) return repr(number, "inf", "nan");
    if (value instanceof Map || value instanceof List) {
      var out = new StringBuilder();
      json(out, value);
      return out.toString();
    }
    return value == null ? "None" : value.toString();
  }

  private static void json(StringBuilder out, Object value) {
    if (value instanceof Map<?, ?> map) {
      String between = "{";
      for (var one : map.entrySet()) {
        quote(out.append(between), (String) one.getKey());
        json(out.append(": "), one.getValue());
        between = ", ";
      }
      out.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof List<?> list) {
      String between = "[";
      for (Object one : list) {
        json(out.append(between), one);
        between = ", ";
      }
      out.append(list.isEmpty() ? "[]" : "]");
    } else if (value instanceof Raw || value instanceof BigDecimal) {
      quote(out, text(value));
    } else if (value instanceof Double number) {
      out.append(repr(number, "Infinity", "NaN"));
    } else {
      out.append(value); // null, true, false and whole numbers
    }
  }

  private static void quote(StringBuilder out, String raw) {
    String shown = new String(Texts.repaired(raw.getBytes(ISO_8859_1)), ISO_8859_1);
    out.append('"');
    for (char one : shown.toCharArray()) {
      switch (one) {
        case '"' -> out.append("\\\"");
        case '\\' -> out.append("\\\\");
        case '\n' -> out.append("\\n");
        case '\r' -> out.append("\\r");
        case '\t' -> out.append("\\t");
        case '\f' -> out.append("\\f");
        case '\b' -> out.append("\\b");
        default -> out.append(one < 0x20 ? String.format("\\u%04x", (int) one) : String.valueOf(one));
      }
    }
    out.append('"');
  }

  /** The shortest digits that give the number again, as Python writes them. */
  private static String repr(double number, String infinite, String none) {
    if (Double.isNaN(number)) return none;
    if (Double.isInfinite(number)) return number > 0 ? infinite : "-" + infinite;
    if (number == 0) return 1 / number < 0 ? "-0.0" : "0.0";
    var exact = new BigDecimal(number);
    var digits = exact;
    for (int precision = 1; precision <= 17; precision++) {
      digits = exact.round(new MathContext(precision));
      if (digits.doubleValue() == number) break;
    }
    digits = digits.stripTrailingZeros();
    int exponent = digits.precision() - digits.scale() - 1;
    if (exponent >= -4 && exponent < 16) return digits.scale() <= 0 ? digits.toPlainString() + ".0" : digits.toPlainString();
    String unscaled = digits.unscaledValue().abs().toString();
    String mantissa = unscaled.substring(0, 1) + (unscaled.length() > 1 ? "." + unscaled.substring(1) : "");
    return (number < 0 ? "-" : "") + mantissa + "e" + (exponent < 0 ? "-" : "+") + (Math.abs(exponent) < 10 ? "0" : "") + Math.abs(exponent);
  }
}
