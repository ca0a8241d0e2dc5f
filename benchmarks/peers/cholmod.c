/* CHOLMOD behind five calls: the compiler, not ctypes, handles the layout of its structs.
 * The matrix is not copied: the upper triangle by columns has the same arrays as the lower triangle by rows.
 * Solutions are written to the caller's array; the workspaces of the solve are kept from call to call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <suitesparse/cholmod.h>

void dgemm_(void);

typedef struct {
    cholmod_common common;
    cholmod_sparse A;
    cholmod_factor *L;
    cholmod_dense *Y, *E; /* workspaces of cholmod_solve2 */
} Session;

Session *session_new(int supernodal, int ordering) {
    Session *s = calloc(1, sizeof(Session));
    cholmod_start(&s->common);
    s->common.print = 0;
    s->common.supernodal = supernodal;
    s->common.nmethods = 1;
    s->common.method[0].ordering = ordering;
    s->common.postorder = 1;
    return s;
}

void session_free(Session *s) {
    cholmod_free_factor(&s->L, &s->common);
    cholmod_free_dense(&s->Y, &s->common);
    cholmod_free_dense(&s->E, &s->common);
    cholmod_finish(&s->common);
    free(s);
}

int session_analyze(Session *s, int n, int *p, int *i, double *x, int *perm) {
    s->A = (cholmod_sparse){.nrow = n, .ncol = n, .nzmax = p[n], .p = p, .i = i, .x = x, .stype = 1,
                            .itype = CHOLMOD_INT, .xtype = CHOLMOD_REAL, .dtype = CHOLMOD_DOUBLE, .sorted = 1, .packed = 1};
    cholmod_free_factor(&s->L, &s->common);
    s->L = cholmod_analyze_p(&s->A, perm, NULL, 0, &s->common);
    return s->common.status;
}

int session_factor(Session *s, double *x) {
    s->A.x = x;
    cholmod_factorize(&s->A, s->L, &s->common);
    return s->common.status;
}

int session_solve(Session *s, int k, double *b, double *x) {
    size_t n = s->A.nrow;
    cholmod_dense B = {.nrow = n, .ncol = k, .nzmax = n * k, .d = n, .x = b, .xtype = CHOLMOD_REAL, .dtype = CHOLMOD_DOUBLE};
    cholmod_dense X = B, *solution = &X;
    X.x = x;
    cholmod_solve2(CHOLMOD_A, s->L, &B, NULL, &solution, NULL, &s->Y, &s->E, &s->common);
    return s->common.status;
}

/* C has k columns of rows in the caller's numbering, ascending in each. A supernodal factor becomes a simplicial one. */
int session_update(Session *s, int up, int k, int *p, int *i, double *x) {
    size_t n = s->A.nrow;
    cholmod_sparse C = {.nrow = n, .ncol = k, .nzmax = p[k], .p = p, .i = i, .x = x, .stype = 0,
                        .itype = CHOLMOD_INT, .xtype = CHOLMOD_REAL, .dtype = CHOLMOD_DOUBLE, .sorted = 1, .packed = 1};
    cholmod_sparse *permuted = cholmod_submatrix(&C, s->L->Perm, n, NULL, -1, 1, 1, &s->common);
    cholmod_updown(up, permuted, s->L, &s->common);
    cholmod_free_sparse(&permuted, &s->common);
    return s->common.status;
}

void session_facts(Session *s, double *facts) {
    facts[0] = s->common.lnz;
    facts[1] = s->common.fl;
    facts[2] = s->L ? s->L->is_super : 0;
}

const char *cholmod_release(void) {
    static char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", CHOLMOD_MAIN_VERSION, CHOLMOD_SUB_VERSION, CHOLMOD_SUBSUB_VERSION);
    return text;
}

/* The library of dgemm: CHOLMOD is slow on the reference BLAS. */
const char *blas_file(void) {
    Dl_info info;
    return dladdr((void *)dgemm_, &info) ? info.dli_fname : "unknown";
}
