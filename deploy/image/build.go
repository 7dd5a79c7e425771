package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// build compiles kube-vmap for one architecture and returns the binary's path.
func build(root, temp, arch string, r release) (string, error) {
	path, err := filepath.Abs(filepath.Join(temp, "kube-vmap-"+arch))
	if err != nil {
		return "", fmt.Errorf("find the place to build in: %w", err)
	}
	cmd := exec.Command("go", "build",
		"-trimpath", // no paths of this machine
		// The version says which commit. What git knows would also say whether any
		// file of the tree differs, be it this one's README.
		"-buildvcs=false",
		// Without symbol table and DWARF; a panic prints its lines all the same.
		"-gcflags=all=-dwarf=false", "-ldflags", "-s -w -X main.version="+r.version,
		"-o", path, "./cmd/kube-vmap")
	cmd.Dir = root
	cmd.Env = environment(arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// environment is that of the build: what could make the result differ from machine
// to machine is fixed. Of several values for one name the last one counts. None may
// be empty, for that would bring in what `go env -w` has stored. A comma is no
// experiment more or less than this Go has by itself; "none" would take away its
// garbage collector, too.
func environment(arch string) []string {
	return append(os.Environ(),
		"GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0",
		"GOFLAGS=-mod=readonly", "GOEXPERIMENT=,", "GOFIPS140=off", "GOWORK=off")
}
