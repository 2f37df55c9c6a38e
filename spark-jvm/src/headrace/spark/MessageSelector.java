package headrace.spark;

import java.util.List;
import java.util.regex.Pattern;
import org.apache.spark.sql.vectorized.*;
import org.apache.spark.unsafe.types.UTF8String;

/** A condition on the properties of messages, as the tree into which the broker has parsed it: lists that begin with what they are. */
final class MessageSelector {
  private static final Pattern WHOLE = Pattern.compile("[+-]?[0-9]{1,20}");
  private static final Pattern REAL = Pattern.compile("\\s*([+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?)[fFdD]?\\s*");

  /** A text that is no number where one is needed, or beside TRUE: the message is not chosen. */
  private static final class NotComparable extends RuntimeException {
    private static final long serialVersionUID = 1;

    NotComparable() {
      super(null, null, false, false);
    }
  }

  private final Object condition;
  private final ColumnVector tags, key, properties;
  private int row; // that is looked at

  MessageSelector(Object condition, MessageReader reader) {
    this.condition = condition;
    tags = reader.column("tags");
    key = reader.column("key");
    properties = reader.column("properties");
  }

  /** Whether the condition is true of that row of the batch, and not merely not false. */
  boolean chooses(int row) {
    this.row = row;
    try {
      return Boolean.TRUE.equals(value(condition));
    } catch (NotComparable none) {
      return false;
    }
  }

  private String property(String name) {
    ColumnVector own = name.equals("TAGS") ? tags : name.equals("KEYS") ? key : null;
    if (own != null && !own.isNullAt(row)) return own.getUTF8String(row).toString();
    UTF8String wanted = UTF8String.fromString(name);
    ColumnarMap all = properties.getMap(row);
    for (int i = 0; i < all.numElements(); i++) {
      if (all.keyArray().getUTF8String(i).equals(wanted)) return all.valueArray().getUTF8String(i).toString();
    }
    return null;
  }

  /** Text, Long, Double or Boolean; null is not known. */
  private Object value(Object part) {
    var node = (List<?>) part;
    String what = (String) node.get(0);
    return switch (what) {
      case "Constant" -> node.get(1);
      case "Property" -> property((String) node.get(1));
      case "Negation" -> null;
      case "Not" -> {
        Boolean inner = truth(node.get(1));
        yield inner == null ? null : (Object) !inner;
      }
      case "And", "Or" -> {
        boolean decisive = what.equals("Or"), isKnown = true;
        for (Object one : (List<?>) node.get(1)) {
          Boolean inner = truth(one);
          if (inner == null) isKnown = false;
          else if (inner == decisive) yield decisive;
        }
        yield isKnown ? (Object) !decisive : null;
      }
      case "Equal" -> equal(value(node.get(1)), value(node.get(2)));
      case "IsNull" -> value(node.get(1)) == null;
      case "In" -> {
        String text = property((String) node.get(1));
        yield text == null ? null : (Object) ((List<?>) node.get(2)).contains(text);
      }
      case "TextMatch" -> {
        String wanted = (String) node.get(3);
        if (!(value(node.get(2)) instanceof String text) || wanted.isEmpty()) yield false; // with NOT too
        boolean found = switch ((String) node.get(1)) {
          case "CONTAINS" -> text.contains(wanted);
          case "STARTSWITH" -> text.startsWith(wanted);
          default -> text.endsWith(wanted);
        };
        yield found != (Boolean) node.get(4);
      }
      default -> ordered((String) node.get(1), value(node.get(2)), value(node.get(3))); // Comparison
    };
  }

  /** A condition; text is none, so that a bare property is never true. */
  private Boolean truth(Object part) {
    Object found = value(part);
    return found == null ? null : found instanceof Boolean known && !((List<?>) part).get(0).equals("Property") ? known : Boolean.FALSE;
  }

  /** As RocketMQ: it is not symmetrical. */
  private static Boolean equal(Object one, Object other) {
    if (one == null || other == null) return one == other ? Boolean.TRUE : one == null ? null : Boolean.FALSE;
    if (one instanceof Boolean && other instanceof String) throw new NotComparable();
    if (one.getClass() == other.getClass()) return isSame(one, other);
    Object left = read(one, other), right = read(other, one);
    if (left instanceof Number a && right instanceof Number b) return a.doubleValue() == b.doubleValue();
    return left.getClass() == right.getClass() && isSame(left, right);
  }

  private static boolean isSame(Object one, Object other) {
    return one instanceof Double a ? a.doubleValue() == (Double) other : one.equals(other);
  }

  private static Boolean ordered(String sign, Object one, Object other) {
    if (one == null || other == null) return null;
    boolean areTexts = one instanceof String && other instanceof String;
    Object left = areTexts ? real((String) one) : read(one, other), right = areTexts ? real((String) other) : read(other, one);
    int order = left instanceof Long a && right instanceof Long b && !(one instanceof Long && other instanceof Long) ? Long.compare(a, b)
        : compare(((Number) left).doubleValue(), ((Number) right).doubleValue());
    return switch (sign) {
      case "<" -> order < 0;
      case "<=" -> order <= 0;
      case ">" -> order > 0;
      default -> order >= 0;
    };
  }

  private static int compare(double one, double other) {
    return one < other ? -1 : one > other ? 1 : 0;
  }

  /** A text as the kind of what is beside it. */
  private static Object read(Object value, Object beside) {
    if (!(value instanceof String text) || beside instanceof String) return value;
    if (beside instanceof Boolean) return text.equalsIgnoreCase("true");
    if (beside instanceof Double) return real(text);
    try {
      if (!WHOLE.matcher(text).matches()) throw new NotComparable();
      return Long.valueOf(text);
    } catch (NumberFormatException tooLong) {
      throw new NotComparable();
    }
  }

  private static Double real(String text) {
    var found = REAL.matcher(text);
    if (!found.matches()) throw new NotComparable();
    return Double.valueOf(found.group(1));
  }
}
