/* What executorch.Model calls: a function of executorch.h each, its error as an exception.
 *
 * Tried on Linux with a JVM (tests/python/custom/test_other_languages.py). Android compiles the same file with its NDK,
 * which has not been run. */
#include <executorch_py/c_api/executorch.h>
#include <jni.h>

static void throw_new(JNIEnv* env, const char* type, const char* text) {
  const jclass class = (*env)->FindClass(env, type);
  if (class != NULL) { /* otherwise an exception is on its way already */
    (*env)->ThrowNew(env, class, text);
  }
}

/* Whether a call failed; then an exception is pending. */
static int failed(JNIEnv* env, et_status status) {
  const char* type = "java/lang/IllegalStateException";
  if (status == ET_OK) {
    return 0;
  }
  if (status == ET_OUT_OF_MEMORY) {
    type = "java/lang/OutOfMemoryError";
  } else if (status == ET_INVALID_ARGUMENT || status == ET_INVALID_TYPE || status == ET_NOT_FOUND) {
    type = "java/lang/IllegalArgumentException";
  }
  throw_new(env, type, et_last_error());
  return 1;
}

static et_method* method_of(jlong handle) { return (et_method*)(intptr_t)handle; }

JNIEXPORT jlong JNICALL Java_executorch_Model_load(JNIEnv* env, jclass class, jbyteArray path, jbyteArray name) {
  et_program* program = NULL;
  et_method* method = NULL;
  jbyte* const path_bytes = (*env)->GetByteArrayElements(env, path, NULL);
  jbyte* const name_bytes = path_bytes == NULL ? NULL : (*env)->GetByteArrayElements(env, name, NULL);
  (void)class;
  if (name_bytes != NULL && !failed(env, et_init()) &&
      !failed(env, et_program_load_file((const char*)path_bytes, NULL, &program))) {
    failed(env, et_method_load(program, (const char*)name_bytes, &method));
  }
  et_program_free(program); /* the method keeps it */
  if (name_bytes != NULL) {
    (*env)->ReleaseByteArrayElements(env, name, name_bytes, JNI_ABORT);
  }
  if (path_bytes != NULL) {
    (*env)->ReleaseByteArrayElements(env, path, path_bytes, JNI_ABORT);
  }
  return (jlong)(intptr_t)method;
}

JNIEXPORT void JNICALL Java_executorch_Model_free(JNIEnv* env, jclass class, jlong method) {
  (void)env, (void)class;
  et_method_free(method_of(method));
}

JNIEXPORT void JNICALL Java_executorch_Model_setInput(JNIEnv* env, jclass class, jlong method, jint i, jint dtype,
                                                      jlongArray sizes, jobject data) {
  void* const address = (*env)->GetDirectBufferAddress(env, data);
  jlong* lengths;
  et_tensor tensor;
  (void)class;
  if (address == NULL) {
    throw_new(env, "java/lang/IllegalArgumentException", "a tensor's data must be a direct ByteBuffer");
    return;
  }
  if ((lengths = (*env)->GetLongArrayElements(env, sizes, NULL)) == NULL) {
    return;
  }
  tensor.dtype = dtype;
  tensor.rank = (*env)->GetArrayLength(env, sizes);
  tensor.sizes = (const int64_t*)lengths;
  tensor.data = address;
  tensor.nbytes = (size_t)(*env)->GetDirectBufferCapacity(env, data);
  failed(env, et_method_set_input(method_of(method), (size_t)i, &tensor));
  (*env)->ReleaseLongArrayElements(env, sizes, lengths, JNI_ABORT);
}

JNIEXPORT void JNICALL Java_executorch_Model_execute(JNIEnv* env, jclass class, jlong method) {
  (void)class;
  failed(env, et_method_execute(method_of(method)));
}

JNIEXPORT jint JNICALL Java_executorch_Model_numOutputs(JNIEnv* env, jclass class, jlong method) {
  (void)env, (void)class;
  return (jint)et_method_num_outputs(method_of(method));
}

/* Output i, or dtype < 0 and a pending exception. */
static et_tensor output(JNIEnv* env, jlong method, jint i) {
  et_tensor tensor = {-1, 0, NULL, NULL, 0};
  failed(env, et_method_get_output(method_of(method), (size_t)i, &tensor));
  return tensor;
}

JNIEXPORT jint JNICALL Java_executorch_Model_outputDtype(JNIEnv* env, jclass class, jlong method, jint i) {
  (void)class;
  return output(env, method, i).dtype;
}

JNIEXPORT jlongArray JNICALL Java_executorch_Model_outputSizes(JNIEnv* env, jclass class, jlong method, jint i) {
  const et_tensor tensor = output(env, method, i);
  const jlongArray sizes = tensor.dtype < 0 ? NULL : (*env)->NewLongArray(env, tensor.rank);
  (void)class;
  if (sizes != NULL) {
    (*env)->SetLongArrayRegion(env, sizes, 0, tensor.rank, (const jlong*)tensor.sizes);
  }
  return sizes;
}

JNIEXPORT jbyteArray JNICALL Java_executorch_Model_outputBytes(JNIEnv* env, jclass class, jlong method, jint i) {
  const et_tensor tensor = output(env, method, i);
  const jbyteArray bytes = tensor.dtype < 0 ? NULL : (*env)->NewByteArray(env, (jsize)tensor.nbytes);
  (void)class;
  if (bytes != NULL) {
    (*env)->SetByteArrayRegion(env, bytes, 0, (jsize)tensor.nbytes, (const jbyte*)tensor.data);
  }
  return bytes;
}
