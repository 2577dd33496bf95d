// Milliseconds that protobuf's C++ library takes to load an ONNX file: load_protobuf FILE. Debian's libonnx-dev has the classes.
#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const auto start = std::chrono::steady_clock::now();
    const int fd = open(argv[1], O_RDONLY);
    if (fd < 0) return 2;
    google::protobuf::io::FileInputStream file(fd);
    google::protobuf::io::CodedInputStream in(&file);
    in.SetTotalBytesLimit(0x7fffffff);
    onnx::ModelProto model;
    if (!model.ParseFromCodedStream(&in)) return 1;
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    std::printf("{\"ms\": %.3f, \"nodes\": %d, \"weights\": %d}\n", spent.count(), model.graph().node_size(), model.graph().initializer_size());
    close(fd);
    return 0;
}
