package executorch;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * A method of a .pte file. One thread at a time runs it; others wait.
 *
 * <pre>
 * try (Model model = new Model("model.pte", "forward")) {
 *   Tensor[] outputs = model.run(Tensor.of(new float[] {1, 2, 3, 4}, 1, 4));
 * }
 * </pre>
 *
 * Errors of the runtime are IllegalArgumentException (a wrong dtype, shape or name), OutOfMemoryError, or
 * IllegalStateException for everything else, with the runtime's text.
 */
public final class Model implements AutoCloseable {
  static {
    System.loadLibrary("executorch_jni");
  }

  private long method; // 0: closed, which the C interface refuses
  private Tensor[] inputs = {}; // borrowed by the method until it has run

  /** Elements in memory, row-major. dtype: a number of executorch.h, 6 = float32. data: direct and in native order. */
  public record Tensor(int dtype, long[] sizes, ByteBuffer data) {
    public static final int FLOAT = 6;

    public static Tensor of(float[] values, long... sizes) {
      ByteBuffer data = ByteBuffer.allocateDirect(Float.BYTES * values.length).order(ByteOrder.nativeOrder());
      data.asFloatBuffer().put(values);
      return new Tensor(FLOAT, sizes, data);
    }

    public float[] floats() {
      if (dtype != FLOAT) {
        throw new IllegalArgumentException("dtype " + dtype + " is not float32");
      }
      float[] values = new float[data.capacity() / Float.BYTES];
      data.order(ByteOrder.nativeOrder()).asFloatBuffer().get(values);
      return values;
    }
  }

  public Model(String path, String name) {
    method = load((path + "\0").getBytes(StandardCharsets.UTF_8), (name + "\0").getBytes(StandardCharsets.UTF_8));
  }

  /** Runs on these inputs. The outputs are copies. */
  public synchronized Tensor[] run(Tensor... given) {
    for (int i = 0; i < given.length; i++) {
      setInput(method, i, given[i].dtype(), given[i].sizes(), given[i].data());
    }
    inputs = given;
    execute(method);
    Tensor[] outputs = new Tensor[numOutputs(method)];
    Arrays.setAll(outputs, this::output);
    return outputs;
  }

  private Tensor output(int i) {
    byte[] bytes = outputBytes(method, i);
    ByteBuffer data = ByteBuffer.allocateDirect(bytes.length).order(ByteOrder.nativeOrder());
    return new Tensor(outputDtype(method, i), outputSizes(method, i), data.put(bytes).rewind());
  }

  @Override
  public synchronized void close() {
    free(method);
    method = 0;
    inputs = new Tensor[0];
  }

  private static native long load(byte[] path, byte[] name);

  private static native void free(long method);

  private static native void setInput(long method, int i, int dtype, long[] sizes, ByteBuffer data);

  private static native void execute(long method);

  private static native int numOutputs(long method);

  private static native int outputDtype(long method, int i);

  private static native long[] outputSizes(long method, int i);

  private static native byte[] outputBytes(long method, int i);
}
