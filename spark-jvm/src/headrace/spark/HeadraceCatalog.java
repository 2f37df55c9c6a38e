package headrace.spark;

import headrace.spark.HeadraceProvider.HeadraceTable;
import java.io.IOException;
import java.net.*;
import java.util.*;
import java.util.regex.*;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import static headrace.spark.BulkConnection.fields;
import static java.nio.charset.StandardCharsets.UTF_8;

/** A broker as a catalog of SQL: vhosts are namespaces; queues, topics and exchanges are tables. */
public final class HeadraceCatalog implements TableCatalog, SupportsNamespaces {
  private static final StructType WRITABLE = StructType.fromDDL("routing_key string, key string, tags string, "
      + "priority string, message_id string, properties map<string,string>, body binary");
  private static final Pattern URL = Pattern.compile("(headraces?://)([^/]*@)?([^/@]*)(?:/([^/?#]*))?");
  private static final Pattern KIND = Pattern.compile("(queue|topic|exchange):(.*)", Pattern.DOTALL);
  private static final List<String> KINDS = List.of("queue", "topic", "exchange");
  private static final Set<String> PROPERTIES = Set.of("queues", "retention", "engine");
  private final Set<Identifier> created = new HashSet<>(); // by this session
  private String name;
  private Matcher url;

  private interface Calls<T> {
    T on(BulkConnection connection) throws IOException;
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    url = URL.matcher(options.getOrDefault("url", ReadOptions.DEFAULT_URL));
    if (!url.matches()) {
      throw SparkError.badOption("spark.sql.catalog." + name + ".url: expected headrace://user:password@host:9090/vhost or headraces://");
    }
  }

  @Override public String name() { return name; }

  // -- vhosts -----------------------------------------------------------------------------------

  @Override
  public String[] defaultNamespace() {
    String vhost = url.group(4) == null ? "" : URLDecoder.decode(url.group(4).replace("+", "%2B"), UTF_8);
    return new String[] {vhost.isEmpty() || vhost.equals("/") ? "default" : vhost};
  }

  private String vhost(String[] namespace) {
    if (namespace.length > 1) throw SparkError.badOption("a name has at most three parts: catalog, vhost, table");
    String[] found = namespace.length == 0 ? defaultNamespace() : namespace;
    return found[0].equals("default") ? "/" : found[0];
  }

  /** The url for a vhost, at one host or at all. */
  private String url(String vhost, String hosts) {
    String user = url.group(2) == null ? "" : url.group(2);
    return url.group(1) + user + hosts + "/" + URLEncoder.encode(vhost, UTF_8).replace("+", "%20");
  }

  /** Calls at the first host that answers. */
  private <T> T with(String[] namespace, Calls<T> calls) {
    var hosts = new ArrayDeque<>(List.of(url.group(3).split(",")));
    while (true) {
      try (var connection = BulkConnection.open(url(vhost(namespace), hosts.poll()), 0)) {
        return calls.on(connection);
      } catch (SparkError error) {
        if (hosts.isEmpty() || error.refusal != null) throw error;
      } catch (IOException error) {
        if (hosts.isEmpty()) throw SparkError.of(error.getMessage());
      }
    }
  }

  /** Everything of a kind that the user may see; only what has the name, if there is one. */
  private static List<Map<?, ?>> list(BulkConnection connection, String kind, String name) throws IOException {
    var found = new ArrayList<Map<?, ?>>();
    boolean more = true;
    for (int page = 0; more; page++) {
      var wanted = fields("kind", kind + "s", "page", page);
      if (name != null) wanted.put("name", name);
      var answer = connection.call(BulkConnection.LIST, wanted);
      for (Object row : (List<?>) answer.get("rows")) found.add((Map<?, ?>) row);
      more = Boolean.TRUE.equals(answer.get("more"));
    }
    return found;
  }

  @Override
  public String[][] listNamespaces() {
    return with(defaultNamespace(), connection -> list(connection, "vhost", null)).stream().map(one -> (String) one.get("name"))
        .map(vhost -> new String[] {vhost.equals("/") ? "default" : vhost}).toArray(String[][]::new);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) return listNamespaces();
    loadNamespaceMetadata(namespace);
    return new String[0][];
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length > 1) throw new NoSuchNamespaceException(namespace);
    String vhost = vhost(namespace);
    boolean isThere = with(defaultNamespace(), connection -> list(connection, "vhost", vhost)).size() > 0;
    if (!isThere) throw new NoSuchNamespaceException(namespace);
    return Map.of();
  }

  // -- tables -----------------------------------------------------------------------------------

  private static boolean isTable(String kind, Map<?, ?> row) {
    return switch (kind) {
      case "queue" -> Boolean.TRUE.equals(row.get("durable")); // others have no offsets
      case "exchange" -> !Boolean.TRUE.equals(row.get("internal"));
      default -> true;
    };
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    loadNamespaceMetadata(namespace);
    var known = new LinkedHashMap<String, Set<String>>();
    with(namespace, connection -> {
      for (String kind : KINDS) {
        var names = new TreeSet<String>();
        for (var row : list(connection, kind, null)) {
          if (isTable(kind, row)) names.add((String) row.get("name"));
        }
        known.put(kind, names);
      }
      return known;
    });
    Set<String> queues = known.get("queue"), topics = known.get("topic"), exchanges = known.get("exchange");
    topics.forEach(topic -> exchanges.remove("topic." + topic)); // through which AMQP clients publish to it
    exchanges.removeIf(one -> one.isEmpty() || one.startsWith("amq."));
    var found = new TreeSet<String>();
    known.forEach((kind, names) -> names.forEach(one -> {
      boolean isQueue = queues.contains(one), isTopic = topics.contains(one);
      boolean isTwice = kind.equals("exchange") ? isQueue || isTopic : isQueue && isTopic;
      found.add(isTwice || KIND.matcher(one).matches() ? kind + ":" + one : one);
    }));
    return found.stream().map(one -> Identifier.of(namespace, one)).toArray(Identifier[]::new);
  }

  @Override public Table loadTable(Identifier table) throws NoSuchTableException { return load(table, Map.of()); }

  /** What was stored up to then. */
  @Override
  public Table loadTable(Identifier table, long us) throws NoSuchTableException {
    return load(table, Map.of("endingTimestamp", String.valueOf(Math.max(1, Math.floorDiv(us, 1000) + 1))));
  }

  private Table load(Identifier table, Map<String, String> more) throws NoSuchTableException {
    if (table.namespace().length > 1) throw new NoSuchTableException(table);
    Matcher named = KIND.matcher(table.name());
    boolean isNamed = named.matches();
    String wanted = isNamed ? named.group(2) : table.name();
    var kinds = with(table.namespace(), connection -> {
      var found = new ArrayList<String>();
      for (String kind : isNamed ? List.of(named.group(1)) : KINDS) {
        if (list(connection, kind, wanted).stream().anyMatch(row -> isTable(kind, row))) found.add(kind);
      }
      return found;
    });
    if (kinds.isEmpty()) throw new NoSuchTableException(table);
    String kind = kinds.get(0);
    if (kinds.containsAll(List.of("queue", "topic"))) {
      throw SparkError.badOption("'" + wanted + "' is a queue and a topic: name it `queue:" + wanted + "` or `topic:" + wanted + "`");
    }
    if (!kind.equals("exchange") && (wanted.contains(",") || !wanted.equals(wanted.strip()))) {
      throw SparkError.badOption(kind + " '" + wanted + "': a name that has a comma, or blanks around it, cannot be read");
    }
    var options = new HashMap<>(more);
    options.put("url", url(vhost(table.namespace()), url.group(3)));
    options.put(kind, wanted);
    return new HeadraceTable(kind, wanted, options, kind.equals("exchange") ? WRITABLE : ReadOptions.SCHEMA, HeadraceProvider.newPython(), true);
  }

  /** A topic. */
  @Override
  @SuppressWarnings("deprecation") // its successor is missing in Spark 4.0
  public Table createTable(Identifier table, Column[] columns, Transform[] partitions, Map<String, String> given)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    String topic = table.name().startsWith("topic:") ? table.name().substring(6) : table.name();
    if (KIND.matcher(topic).matches()) throw SparkError.badOption("CREATE TABLE creates topics: '" + topic + "' is none");
    if (partitions.length > 0) throw SparkError.badOption("a topic is not partitioned by columns: TBLPROPERTIES ('queues' = '4')");
    var known = new TreeSet<>(List.of(ReadOptions.SCHEMA.fieldNames()));
    for (Column one : columns) {
      if (!known.contains(one.name())) {
        throw SparkError.badOption("column '" + one.name() + "' is no column of messages; expected some of "
            + String.join(", ", WRITABLE.fieldNames()) + ". to_json(struct(*)) AS body makes one of all");
      }
    }
    var wanted = fields("name", topic);
    given.forEach((key, value) -> {
      if (PROPERTIES.contains(key)) wanted.put(key, key.equals("queues") && value.matches("[0-9]{1,9}") ? Long.valueOf(value) : value);
    });
    loadNamespaceMetadata(table.namespace());
    var answer = with(table.namespace(), connection -> connection.call(BulkConnection.TOPIC_DECLARE, wanted));
    if (!Boolean.TRUE.equals(answer.get("created"))) throw new TableAlreadyExistsException(table);
    created.add(table);
    try {
      return load(Identifier.of(table.namespace(), "topic:" + topic), Map.of());
    } catch (NoSuchTableException gone) {
      throw SparkError.of("topic '" + topic + "' was deleted by another client");
    }
  }

  /** Only what this session has created: a failed CREATE TABLE AS SELECT leaves nothing. */
  @Override
  public boolean dropTable(Identifier table) {
    if (!created.remove(table)) {
      if (!tableExists(table)) return false;
      throw SparkError.badOption("'" + table.name() + "' is not deleted by SQL, only topics that the same session has created: "
          + "`headrace topic delete` and `headrace queue delete` delete it");
    }
    with(table.namespace(), connection -> connection.call(BulkConnection.TOPIC_DELETE, fields("name", table.name().replaceFirst("^topic:", ""))));
    return true;
  }

  /** Properties may change, which means nothing here: declarative pipelines set some. */
  @Override
  public Table alterTable(Identifier table, TableChange... changes) throws NoSuchTableException {
    for (TableChange one : changes) {
      if (one instanceof TableChange.ColumnChange) throw SparkError.badOption("the columns of messages do not change");
    }
    return loadTable(table);
  }

  private static SparkError unsupported() {
    return SparkError.badOption("not by SQL: use `headrace vhost`, `headrace topic` and `headrace queue`");
  }

  @Override public void renameTable(Identifier from, Identifier to) { throw unsupported(); }
  @Override public void createNamespace(String[] namespace, Map<String, String> metadata) { throw unsupported(); }
  @Override public void alterNamespace(String[] namespace, NamespaceChange... changes) { throw unsupported(); }
  @Override public boolean dropNamespace(String[] namespace, boolean cascade) { throw unsupported(); }
}
