import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/** Judges SQL92 expressions, one per line in base64; the arguments are properties, name=value. */
public class Filter {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<String, Object> properties = new HashMap<>();
        for (String arg : args) {
            int at = arg.indexOf('=');
            properties.put(arg.substring(0, at), arg.substring(at + 1));
        }
        EvaluationContext context = new EvaluationContext() {
            @Override
            public Object get(String name) {
                return properties.get(name);
            }

            @Override
            public Map<String, Object> keyValues() {
                return properties;
            }
        };
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println("> " + verdict(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8), context));
        }
        out.flush();
    }

    /** As a broker decides: what cannot be compiled is refused, what cannot be evaluated not matched. */
    static String verdict(String text, EvaluationContext context) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (Throwable error) {
            return "refused";
        }
        try {
            return Boolean.TRUE.equals(expression.evaluate(context)) ? "match" : "no match";
        } catch (Throwable error) {
            return "no match";
        }
    }
}
