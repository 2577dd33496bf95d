/* What tools/check-headers compiles after each header: a translation unit must not be empty. */
typedef int header_compiles_alone;
