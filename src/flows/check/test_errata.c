#include "flows/check/test_errata.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"

/* clang-format off */
static const pl_erratum errata[] = {
    /* The fixed case has the same input and output bytes; its model has the attribute. */
    { .name = "test_adam_multiple", .model_hash = "8cb15433cfd9a21d6d8f2697df5def78",
      .node = 0, .attr = "epsilon", .value = 1e-2F,
      .text = "the data were made with epsilon = 0.01; the model leaves it at 1e-6",
      .source = "onnx 1.13" },
};
/* clang-format on */

/* The last part of the folder that the file lies in. */
static bool is_case(const char *model_path, const char *name) {
    char *dir = pl_path_dirname(model_path);
    const bool same = dir != NULL && strcmp(pl_path_basename(dir), name) == 0;
    pl_free(dir);
    return same;
}

const pl_erratum *pl_erratum_find(const char *model_path) {
    for (size_t i = 0; i < sizeof(errata) / sizeof(errata[0]); i++) {
        char hex[PL_HASH128_HEX];
        pl_file_map *map = NULL;
        if (!is_case(model_path, errata[i].name)) continue;
        if (pl_file_map_open(model_path, &map, NULL) != PL_OK) continue;
        pl_hash128_hex(pl_hash128_of(map->data, map->n_bytes), hex);
        pl_file_map_unref(map);
        if (strcmp(hex, errata[i].model_hash) == 0) return &errata[i];
    }
    return NULL;
}

pl_status pl_erratum_apply(const pl_erratum *e, pl_model *model, pl_err *err) {
    pl_node *node = e->node < model->graph->n_nodes ? model->graph->nodes[e->node] : NULL;
    if (node == NULL || pl_node_attr(node, e->attr) != NULL) {
        return pl_fail(err, PL_E_INTERNAL, "the erratum of %s does not match its model", e->name);
    }
    pl_attr *attr = pl_node_add_attr(node, e->attr, PL_ATTR_FLOAT);
    if (attr == NULL) return pl_fail_memory(err, 1);
    attr->f = e->value;
    return PL_OK;
}
