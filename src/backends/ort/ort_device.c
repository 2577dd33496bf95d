/* Finding a Vulkan driver. Debian's own software driver (lavapipe) has no adapter that the provider
 * accepts; SwiftShader, which the chromium package brings, has one. */
#include "backends/ort/ort_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define DRIVER "vk_swiftshader_icd.json"
#define LOADER "libvulkan.so.1"

bool pl_ort_device_wanted(const char *providers) {
    static const char name[] = "WebGPU";
    for (const char *at = providers; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, "+");
        if (n == sizeof(name) - 1 && strncmp(at, name, n) == 0) return true;
        at += n + (at[n] != '\0');
    }
    return false;
}

static bool is_set(const char *variable) {
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0';
}

static bool has_driver(const char *folder) {
    char path[400];
    snprintf(path, sizeof(path), "%s/" DRIVER, folder);
    if (!pl_path_exists(path)) return false;
    snprintf(path, sizeof(path), "%s/" LOADER, folder);
    return pl_path_exists(path);
}

static bool find_software(char *folder, size_t n_folder) {
    static const char *const folders[] = { "/usr/lib/chromium", "/usr/lib/chromium-browser",
                                           "/usr/lib64/chromium-browser", "/opt/google/chrome" };
    const char *named = getenv("PLUMB_SWIFTSHADER");
    if (is_set("PLUMB_SWIFTSHADER")) {
        snprintf(folder, n_folder, "%s", named);
        return has_driver(folder);
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(folder, n_folder, "%s", folders[i]);
        if (has_driver(folder)) return true;
    }
    folder[0] = '\0';
    return false;
}

/* A render node means a GPU; without one the system's drivers have nothing to drive. */
static bool has_gpu(void) {
    return pl_path_exists("/dev/dri/renderD128") || pl_path_exists("/dev/nvidia0");
}

void pl_ort_device_find(const char *wish, pl_ort_device *out) {
    *out = (pl_ort_device){ .found = false };
    const bool software = wish != NULL && strcmp(wish, "software") == 0;
    const bool system = wish != NULL && strcmp(wish, "system") == 0;
    if (!software && (is_set("VK_ICD_FILENAMES") || is_set("VK_DRIVER_FILES"))) {
        out->found = true;
        snprintf(out->text, sizeof(out->text), "Vulkan driver of VK_DRIVER_FILES");
        return;
    }
    if (system || (!software && has_gpu())) {
        out->found = true;
        snprintf(out->text, sizeof(out->text), "the system's Vulkan driver");
        return;
    }
    out->found = find_software(out->folder, sizeof(out->folder));
    if (out->found) {
        snprintf(out->text, sizeof(out->text), "SwiftShader (software) of %s", out->folder);
    } else {
        snprintf(out->text, sizeof(out->text),
                 "no GPU (/dev/dri/renderD128), and " DRIVER " with " LOADER
                 " not found in %.100s; "
                 "install chromium (Debian: apt-get install chromium), or set PLUMB_SWIFTSHADER to "
                 "a folder that has both",
                 out->folder[0] == '\0' ? "/usr/lib/chromium" : out->folder);
    }
}

pl_status pl_ort_device_use(const pl_ort_device *device, pl_err *err) {
    char path[400];
    if (!device->found) return pl_fail(err, PL_E_NOT_FOUND, "%s", device->text);
    if (device->folder[0] == '\0') return PL_OK;
    snprintf(path, sizeof(path), "%s/" DRIVER, device->folder);
    setenv("VK_ICD_FILENAMES", path, 1); /* loaders before 1.3.207 */
    setenv("VK_DRIVER_FILES", path, 1);
    snprintf(path, sizeof(path), "%s/" LOADER, device->folder);
    /* Stays open: a later dlopen of this name gets this library. */
    if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) == NULL)
        return pl_fail(err, PL_E_NOT_FOUND, "cannot open the Vulkan loader: %s", dlerror());
    return PL_OK;
}
