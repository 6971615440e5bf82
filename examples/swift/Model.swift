// A method of a .pte file, over the module map beside executorch.h. Neither compiled nor run: Debian has no Swift.
//
//     swiftc Model.swift main.swift -I <package>/include/executorch_py/c_api -L <package>/lib

import Executorch

struct ModelError: Error {
  let status: et_status
  let text: String
}

final class Model {
  private var method: OpaquePointer?

  init(path: String, name: String = "forward") throws {
    try Model.check(et_init_abi(UInt32(ET_ABI_VERSION)))
    var program: OpaquePointer?
    try Model.check(et_program_load_file(path, nil, &program))
    defer { et_program_free(program) }  // the method keeps it
    try Model.check(et_method_load(program, name, &method))
  }

  deinit { et_method_free(method) }

  /// Runs on one float32 tensor, row-major, and gives the elements of the first output. One thread at a time.
  func run(_ input: [Float], sizes: [Int64]) throws -> [Float] {
    var input = input
    var output = et_tensor()
    try sizes.withUnsafeBufferPointer { sizes in
      try input.withUnsafeMutableBytes { bytes in
        var tensor = et_tensor(
          dtype: ET_FLOAT, rank: Int32(sizes.count), sizes: sizes.baseAddress, data: bytes.baseAddress,
          nbytes: bytes.count)
        try Model.check(et_method_set_input(method, 0, &tensor))
        try Model.check(et_method_execute(method))
      }
    }
    try Model.check(et_method_get_output(method, 0, &output))
    guard output.dtype == ET_FLOAT else { throw ModelError(status: ET_INVALID_TYPE, text: "output 0 is not float32") }
    return Array(UnsafeRawBufferPointer(start: output.data, count: output.nbytes).bindMemory(to: Float.self))
  }

  private static func check(_ status: et_status) throws {
    if status != ET_OK {
      throw ModelError(status: status, text: String(cString: et_last_error()))
    }
  }
}
