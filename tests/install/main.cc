#include <cstdio>
#include <string>

#include <penstock/penstock.h>

int main(int argc, char** argv) {
  const auto array = penstock::open_array(argc > 1 ? argv[1] : "");
  if (!array) return std::puts(array.error().to_string().c_str()), 1;
  std::string text(array->shape()[0], '?');
  const auto read = array->read(penstock::tensor_view::contiguous(text.data(), array->type(), array->shape()));
  if (!read) return std::puts(read.error().to_string().c_str()), 1;
  std::printf("penstock %s read '%s'\n", PENSTOCK_VERSION, text.c_str());
  return text == "penstock......" ? 0 : 1;
}
