// Digits on a microcontroller: pictures of 8 × 8 pixels come in, ten scores each go out.
#include "board/board.h"
#include "network.h"
#include "report.h"
#include "stream.h"

namespace application {

constexpr size_t kPixels = 64;

int run(Network& network, int, char**) {
  int8_t picture[kPixels];
  uint64_t count = 0;
  if (!open_streams()) {
    return 2;
  }
  for (; read_sample(picture, sizeof(picture)); ++count) {
    const int8_t* const scores = network.run(picture);
    if (scores == nullptr || !write_result(scores, network.num_outputs())) {
      return 3;
    }
  }
  firmware::write_number("pictures ", count);
  firmware::write_number(", instructions each ", count == 0 ? 0 : network.instructions() / count);
  board::write("\n");
  return 0;
}

}  // namespace application
