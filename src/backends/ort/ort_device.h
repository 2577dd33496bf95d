/* Which Vulkan driver ONNX Runtime's WebGPU provider gets: the machine's own where it has a GPU,
 * else SwiftShader, the software driver that Chromium brings along. */
#ifndef PL_ORT_DEVICE_H
#define PL_ORT_DEVICE_H

#include <stdbool.h>

#include "base/status.h"

typedef struct pl_ort_device {
    bool found;
    char folder[256]; /* of SwiftShader; "" = the system's driver, or the one that the user named */
    char text[320];   /* its name, or what is missing and how to install it */
} pl_ort_device;

/* Whether the list "X+Y" has the provider. */
bool pl_ort_device_wanted(const char *providers);
/* wish: "system", "software", or NULL: system where there is a GPU, else software. */
void pl_ort_device_find(const char *wish, pl_ort_device *out);
/* Makes this process use it: sets variables of the Vulkan loader and opens the loader. Called in
 * the guarded child, before ONNX Runtime looks for a device. */
pl_status pl_ort_device_use(const pl_ort_device *device, pl_err *err);

#endif
