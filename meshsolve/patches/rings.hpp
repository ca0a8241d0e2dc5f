// Rows composed of the rows of other queries, one at a time: rotation order, edges that share an end, diamonds, reductions.
//
// Used by the C++ core (rings.cpp) and by the kernels (rings.cu), so both return the same bits. Neighbors and edges of a vertex
// ascend alike: edges are sorted by their ends, the lower end first. So entry k of VE joins the vertex to entry k of VV.
// Cost: O(entries log entries) for the rotation order of a row, O(entries) for the others.
#pragma once
#include "native/rng.hpp"

namespace ms::patches {

// The surface around a vertex: rows of VV and VF, and the corners of all faces.
struct Star {
  int vertex, degree, count;                            // numbers of neighbors and faces
  const int *neighbors, *faces, *corners;               // neighbors and faces ascend
};

// The first position of an ascending row whose value is not below x.
MS_HD inline int position_in(const int* row, int count, int x) {
  int first = 0;
  while (count > 0) {
    const int half = count / 2;
    const bool below = row[first + half] < x;
    first = below ? first + half + 1 : first;
    count = below ? count - half - 1 : half;
  }
  return first;
}

// Faces around a vertex by the positions of its neighbors, which are slots for edges.
struct Rotation {
  int *faces_at, *slots_of;                             // two faces (ranks in the star, or -1) of each slot, two slots of each face

  MS_HD int next_face(int slot, int face) const { return faces_at[2 * slot] == face ? faces_at[2 * slot + 1] : faces_at[2 * slot]; }
  MS_HD int next_slot(int face, int slot) const { return slots_of[2 * face] == slot ? slots_of[2 * face + 1] : slots_of[2 * face]; }

  // Returns -1, or the slot of an edge of more than two faces.
  MS_HD int fill(const Star& star) const {
    for (int s = 0; s < 2 * star.degree; ++s) faces_at[s] = -1;
    for (int k = 0; k < star.count; ++k) {
      const int* const corner = star.corners + 3ll * star.faces[k];
      const int c = corner[0] == star.vertex ? 0 : corner[1] == star.vertex ? 1 : 2;
      for (int side = 0; side < 2; ++side) {
        const int slot = position_in(star.neighbors, star.degree, corner[(c + 1 + side) % 3]);
        slots_of[2 * k + side] = slot;
        int* const faces = faces_at + 2 * slot;
        if (faces[0] >= 0 && faces[1] >= 0) return slot;
        faces[faces[0] >= 0] = k;
      }
    }
    return -1;
  }
};

// Writes the values of a row (one per neighbor) in rotation order. `scratch` has 2 * (degree + count) integers.
//
// The direction is that of the lowest face, from its next to its previous corner: counterclockwise seen from outside. The row
// begins at the boundary edge that comes first in this direction, or at the lowest face if the surface is closed around the vertex.
// Returns -1, or a position: of the neighbor whose edge has more than two faces; `degree` if the faces form several fans.
MS_HD inline int rotate_row(const Star& star, const int* values, int* scratch, int* out) {
  if (star.count == 0) return -1;
  const Rotation at{scratch, scratch + 2 * star.degree};
  const int crowded = at.fill(star);
  if (crowded >= 0) return crowded;
  int face = 0, slot = at.slots_of[0];
  for (;;) {                                            // back to the boundary, or once around
    const int before = at.next_face(slot, face);
    if (before < 0) break;
    face = before;
    slot = face > 0 ? at.next_slot(face, slot) : at.slots_of[0];
    if (face == 0) break;
  }
  const int first = slot;
  int written = 0;
  do {
    out[written++] = values[slot];
    if (face < 0) break;
    slot = at.next_slot(face, slot);
    face = at.next_face(slot, face);
  } while (slot != first);
  return written == star.degree ? -1 : star.degree;
}

// Merges the ascending edges of both ends of edge e, without e.
MS_HD inline void merge_edges(const int* a, const int* a_end, const int* b, const int* b_end, int e, int* out) {
  while (a != a_end || b != b_end) {
    const int least = b == b_end || (a != a_end && *a <= *b) ? *a++ : *b++;
    if (least != e) *out++ = least;
  }
}

// The two ends of an edge and the opposite corners of its faces: first end, corner of the face in which the edge runs from the
// first to the second end, second end, corner of the other face; -1 if there is no such face. If both faces run alike, the lower
// one comes first. False if the edge has more than two faces.
MS_HD inline bool diamond(const int* ends, const int* faces, int count, const int* corners, int* out) {
  out[0] = ends[0];
  out[1] = -1;
  out[2] = ends[1];
  out[3] = -1;
  if (count > 2) return false;
  bool forward[2] = {true, false};
  int opposite[2] = {-1, -1};
  for (int k = 0; k < count; ++k) {
    const int* const corner = corners + 3ll * faces[k];
    const int c = corner[0] != ends[0] && corner[0] != ends[1] ? 0 : corner[1] != ends[0] && corner[1] != ends[1] ? 1 : 2;
    opposite[k] = corner[c];
    forward[k] = corner[(c + 1) % 3] == ends[0];
  }
  const bool swapped = !forward[0] && (count < 2 || forward[1]);
  out[swapped ? 3 : 1] = opposite[0];
  if (count == 2) out[swapped ? 1 : 3] = opposite[1];
  return true;
}

enum Reduction { kSum, kMean, kMin, kMax };             // numbered as in PatchMesh.reduce

// Reduces one number of each entry of a row; entries of `values` are `width` numbers apart. Negative entries, the boundary sides of
// diamonds, are passed over. NaN is kept. Without entries: `empty`.
template <class T>
MS_HD inline T reduce_column(int op, const int* entry, const int* end, const T* values, long long width, T empty) {
  T total = empty;
  int count = 0;
  for (; entry < end; ++entry) {
    if (*entry < 0) continue;
    const T x = values[*entry * width];
    if (count++ == 0) total = x;
    else if (op <= kMean) total += x;
    else if ((op == kMin ? x < total : x > total) || x != x) total = x;
  }
  return op == kMean && count > 0 ? total / static_cast<T>(count) : total;
}

}  // namespace ms::patches
