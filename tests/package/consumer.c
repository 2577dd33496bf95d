/* A program of somebody else's: opens a model, runs it behind the guard, analyses it, and prints
 * what it was told. */
#include <plumb.h>
#include <stdio.h>
#include <string.h>

static int fail(const plumb_error *err) {
    fprintf(stderr, "consumer: %s\n", err->message);
    return plumb_exit_code(err->status);
}

int main(int argc, char **argv) {
    plumb_error err = { 0 };
    plumb_model *model = NULL;
    char *text = NULL;
    int code = 0;
    if (argc != 4) return 2;
    printf("plumb %s\n", plumb_version());
    if (plumb_model_open(argv[1], &model, &err) != PLUMB_OK) return fail(&err);
    printf("%zu input, %zu output: %s\n", plumb_model_inputs(model), plumb_model_outputs(model),
           plumb_model_output_name(model, 0));
    const char *const dims[] = { "batch=2" };
    plumb_analyze_options options = { 0 };
    options.backend = argv[2];
    options.output = argv[3];
    options.inputs.dims = dims;
    options.inputs.n_dims = 1;
    options.save = "none";
    if (plumb_analyze(model, &options, &code, &text, &err) != PLUMB_OK) return fail(&err);
    printf("%.*s\n", (int)strcspn(text, ":"), text);
    plumb_free(text);
    plumb_model_close(model);
    /* A file that is none ends in a message, not in an abort. */
    if (plumb_model_open("/dev/null", &model, &err) == PLUMB_OK) return 4;
    return code;
}
