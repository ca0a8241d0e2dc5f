"""Write the scan-like test mesh: genus 2, scanner noise, a hole. ``python data/make_data.py [-n N] [-o FILE]``."""

import argparse
import pathlib

import meshsolve.datasets


def main():
    parser = argparse.ArgumentParser(description="Write a scan-like mesh: a noisy surface of genus 2 with a hole.")
    parser.add_argument("-n", type=int, default=100_000, help="about how many vertices (default 100000)")
    parser.add_argument("-o", type=pathlib.Path, default=pathlib.Path(__file__).parent / "scan.ply", help="file to write")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    arguments = parser.parse_args()
    mesh = meshsolve.datasets.scan_like(arguments.n, seed=arguments.seed)
    mesh.save(arguments.o)
    print(f"{arguments.o}: {len(mesh.vertices):,} vertices, {len(mesh.faces):,} faces")


if __name__ == "__main__":
    main()
