// Eigen's SimplicialLLT with AMD behind four calls. It is the solver of libigl's min_quad_with_fixed and many mesh programs.
// The matrix is not copied: the lower triangle by columns has the same arrays as the upper triangle by rows.
#include <Eigen/Sparse>
#include <cstdio>

namespace {
using Matrix = Eigen::SparseMatrix<double, Eigen::ColMajor, int>;
using Solver = Eigen::SimplicialLLT<Matrix, Eigen::Lower, Eigen::AMDOrdering<int>>;

Eigen::Map<const Matrix> map(int n, const int* p, const int* i, const double* x) {
    return Eigen::Map<const Matrix>(n, n, p[n], p, i, x);
}
}  // namespace

extern "C" {
Solver* solver_new() { return new Solver; }
void solver_free(Solver* s) { delete s; }
void solver_analyze(Solver* s, int n, const int* p, const int* i, const double* x) { s->analyzePattern(map(n, p, i, x)); }

int solver_factor(Solver* s, int n, const int* p, const int* i, const double* x) {
    s->factorize(map(n, p, i, x));
    return s->info() == Eigen::Success ? 0 : 1;
}

void solver_solve(Solver* s, int n, int k, const double* b, double* x) {
    Eigen::Map<Eigen::MatrixXd>(x, n, k) = s->solve(Eigen::Map<const Eigen::MatrixXd>(b, n, k));
}

long solver_nnz(Solver* s) { return s->matrixL().nestedExpression().nonZeros(); }

const char* eigen_release() {
    static char text[32];
    std::snprintf(text, sizeof text, "%d.%d.%d", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
    return text;
}
}
