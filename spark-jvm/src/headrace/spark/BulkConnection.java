package headrace.spark;

import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.*;
import javax.net.ssl.*;

import static java.nio.charset.StandardCharsets.UTF_8;

/** A connection of the native protocol, with one request at a time. One thread uses it. */
final class BulkConnection implements Closeable {
  static final int CHANNEL_OPEN = 0x01, HELLO = 0x0d, PING = 0x0e, LIST = 0x14, TOPIC_DECLARE = 0x20, TOPIC_DELETE = 0x21, BOUNDS = 0x30;
  static final int PIN = 0x34, UNPIN = 0x35, LOCATE = 0x37, RECORDS = 0x38;
  private static final int CONNECT_MS = 10_000, ANSWER_MS = 120_000, PAUSE_MS = 500, HEAD = 8;

  /** The broker is not there, or the connection is lost: worth another attempt. */
  static final class ConnectionClosed extends IOException {
    private static final long serialVersionUID = 1;

    ConnectionClosed(String text) {
      super(text);
    }
  }

  private final Closeable socket;
  private final ReadableByteChannel in;
  private final WritableByteChannel out;
  private final Selector selector; // of a plain connection
  final boolean isNear;
  private final ByteBuffer head = ByteBuffer.allocate(HEAD);
  private ByteBuffer payload = ByteBuffer.allocateDirect(1 << 12); // direct: columns read from its address
  private long rid, sentAt, heartbeatMs;

  /** Connects and logs in; retries for {@code patienceMs} while the broker is unreachable. */
  static BulkConnection open(String url, long patienceMs) {
    long deadline = System.currentTimeMillis() + patienceMs;
    while (true) {
      try {
        return new BulkConnection(URI.create(url));
      } catch (IOException error) {
        if (System.currentTimeMillis() >= deadline) throw SparkError.of(error.getMessage());
        pause();
      }
    }
  }

  static void pause() {
    try {
      Thread.sleep(PAUSE_MS);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      checkInterrupted();
    }
  }

  /** Spark interrupts the threads of a query that is stopped: that is no failure, and recognised by its class. */
  static void checkInterrupted() {
    if (Thread.currentThread().isInterrupted()) throw new UncheckedIOException(new InterruptedIOException("the query is stopped"));
  }

  private BulkConnection(URI url) throws IOException {
    boolean tls = url.getScheme().equals("headraces");
    String host = url.getHost() == null ? "127.0.0.1" : url.getHost().replaceAll("^\\[|]$", "");
    int port = url.getPort() >= 0 ? url.getPort() : tls ? 9091 : 9090;
    var address = new InetSocketAddress(host, port);
    String where = host + ":" + port;
    try {
      if (tls) {
        var plain = new Socket();
        plain.connect(address, CONNECT_MS);
        var wrapped = (SSLSocket) ((SSLSocketFactory) SSLSocketFactory.getDefault()).createSocket(plain, host, port, true);
        var parameters = wrapped.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        wrapped.setSSLParameters(parameters);
        wrapped.setSoTimeout(ANSWER_MS);
        wrapped.startHandshake();
        socket = wrapped;
        selector = null;
        in = Channels.newChannel(wrapped.getInputStream());
        out = Channels.newChannel(wrapped.getOutputStream());
        isNear = plain.getInetAddress().isLoopbackAddress();
      } else {
        var channel = SocketChannel.open();
        socket = channel;
        channel.socket().connect(address, CONNECT_MS);
        channel.socket().setTcpNoDelay(true);
        channel.configureBlocking(false);
        selector = Selector.open();
        channel.register(selector, SelectionKey.OP_READ);
        in = channel;
        out = channel;
        isNear = channel.socket().getInetAddress().isLoopbackAddress();
      }
    } catch (IOException | RuntimeException error) {
      checkInterrupted();
      throw new ConnectionClosed("no broker answers at " + where + ": " + error + ". Is `headrace serve` running there?");
    }
    try {
      login(url);
    } catch (ConnectionClosed error) {
      close();
      throw new ConnectionClosed(where + " hung up before the login. Is that the port of the native protocol (9090)?");
    } catch (Throwable error) {
      close();
      throw error;
    }
  }

  private void login(URI url) throws IOException {
    String[] user = url.getRawUserInfo() == null ? new String[0] : url.getRawUserInfo().split(":", 2);
    String vhost = url.getRawPath() == null ? "" : url.getRawPath().replaceFirst("^/", "");
    var limits = (Map<?, ?>) call(HELLO, fields(
        "version", 1, "client", "headrace spark",
        "user", user.length > 0 && !user[0].isEmpty() ? decoded(user[0]) : "guest",
        "password", user.length > 1 ? decoded(user[1]) : "guest",
        "vhost", vhost.isEmpty() ? "/" : decoded(vhost))).get("limits");
    heartbeatMs = (long) (1000 * ((Number) limits.get("heartbeat")).doubleValue());
    call(CHANNEL_OPEN, fields());
  }

  private static String decoded(String part) {
    return URLDecoder.decode(part.replace("+", "%2B"), UTF_8);
  }

  static Map<String, Object> fields(Object... pairs) {
    var found = new LinkedHashMap<String, Object>();
    for (int i = 0; i < pairs.length; i += 2) found.put((String) pairs[i], pairs[i + 1]);
    return found;
  }

  /** One request and its answer; a refusal of the broker is an error. */
  Map<String, Object> call(int kind, Map<String, Object> fields) throws IOException {
    send(kind, fields);
    return receive();
  }

  void send(int kind, Map<String, Object> fields) throws IOException {
    var all = fields("rid", ++rid, "ch", 1);
    all.putAll(fields);
    byte[] packed = MessagePack.pack(all);
    var frame = ByteBuffer.allocate(HEAD + packed.length).putInt(kind).putInt(packed.length).put(packed).flip();
    sentAt = System.currentTimeMillis();
    try {
      while (frame.hasRemaining()) {
        if (out.write(frame) == 0) await(SelectionKey.OP_WRITE);
      }
    } catch (IOException error) {
      checkInterrupted();
      throw error instanceof ConnectionClosed ? error : new ConnectionClosed("the connection to the broker is lost: " + error);
    }
  }

  /** The next answer to the last request. Its bytes are valid until the next call. */
  Map<String, Object> receive() throws IOException {
    while (true) {
      head.clear();
      fill(head);
      int size = head.getInt(4);
      if (size > payload.capacity()) {
        BufferPool.release(payload);
        payload = BufferPool.take(size);
      }
      fill(payload.clear().limit(size));
      @SuppressWarnings("unchecked")
      var answer = (Map<String, Object>) MessagePack.unpack(payload.flip());
      if (!Long.valueOf(rid).equals(answer.get("rid"))) continue;
      if (!Boolean.TRUE.equals(answer.get("ok"))) {
        throw SparkError.refused(String.valueOf(answer.get("code")), String.valueOf(answer.get("text")));
      }
      return answer;
    }
  }

  /** Reading alone does not show the broker that this side is alive. */
  void keepAlive() throws IOException {
    if (heartbeatMs > 0 && System.currentTimeMillis() - sentAt > heartbeatMs / 4) {
      long waiting = rid;
      rid = -2; // its answer is skipped
      send(PING, fields());
      rid = waiting;
    }
  }

  private void fill(ByteBuffer buffer) throws IOException {
    try {
      while (buffer.hasRemaining()) {
        int count = in.read(buffer);
        if (count < 0) throw new ConnectionClosed("the broker closed the connection");
        if (count == 0) await(SelectionKey.OP_READ);
      }
    } catch (IOException error) {
      checkInterrupted();
      throw error instanceof ConnectionClosed ? error : new ConnectionClosed("the connection to the broker is lost: " + error);
    }
  }

  private void await(int what) throws IOException {
    if (selector == null) return;
    selector.keys().forEach(key -> key.interestOps(what));
    selector.selectedKeys().clear();
    if (selector.select(ANSWER_MS) == 0) {
      checkInterrupted();
      throw SparkError.of("the broker did not answer within " + ANSWER_MS / 1000 + " s");
    }
  }

  @Override
  public void close() {
    BufferPool.release(payload);
    payload = ByteBuffer.allocate(0);
    try {
      socket.close();
      if (selector != null) selector.close();
    } catch (IOException ignored) {
      // it is gone already
    }
  }
}
