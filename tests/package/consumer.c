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
    plumb_error err = { PLUMB_OK, "" };
    plumb_model *model = NULL;
    plumb_session *session = NULL;
    char *text = NULL;
    if (argc != 4) return 2;
    printf("plumb %s\n", plumb_version());
    if (plumb_model_open(argv[1], &model, &err) != PLUMB_OK) return fail(&err);
    printf("%zu input, %zu output: %s\n", plumb_model_inputs(model), plumb_model_outputs(model),
           plumb_model_output_name(model, 0));
    const char *const dims[] = { "batch=2" };
    plumb_inputs inputs;
    plumb_analyze_options options;
    plumb_inputs_init(&inputs);
    plumb_analyze_options_init(&options);
    inputs.dims = dims;
    inputs.n_dims = 1;
    options.inputs = &inputs;
    options.backend = argv[2];
    options.output = argv[3];
    options.save = "none";
    if (plumb_analyze(model, &options, &session, &err) != PLUMB_OK) return fail(&err);
    plumb_model_close(model);
    plumb_blame blame = { sizeof(blame) };
    if (!plumb_session_blame(session, 0, &blame)) return 4;
    if (plumb_session_write(session, NULL, &text, &err) != PLUMB_OK) return fail(&err);
    printf("%.*s\n%s\n", (int)strcspn(text, ":"), text, blame.op);
    plumb_free(text);
    const int code = plumb_session_exit_code(session);
    plumb_session_free(session);
    /* A file that is none ends in a message, not in an abort. */
    if (plumb_model_open("/dev/null", &model, &err) == PLUMB_OK) return 4;
    return code;
}
