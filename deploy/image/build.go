package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A platform is what a binary runs on, as Go names it.
type platform struct{ os, arch string }

// build compiles the command in a folder of the tree for one platform, and returns the
// binary's path.
func build(root, temp, command string, p platform, r release) (string, error) {
	path, err := filepath.Abs(filepath.Join(temp, filepath.Base(command)+"-"+p.os+"-"+p.arch))
	if err != nil {
		return "", fmt.Errorf("find the build folder: %w", err)
	}
	cmd := exec.Command("go", "build",
		"-trimpath", // no paths of this machine
		// The version names the commit. VCS information would also depend on
		// uncommitted changes in any file of the tree, such as the README.
		"-buildvcs=false",
		// Without symbol table and DWARF, which panics do not need for line numbers.
		"-gcflags=all=-dwarf=false", "-ldflags", "-s -w -X main.version="+r.version,
		"-o", path, ".")
	cmd.Dir = filepath.Join(root, command)
	cmd.Env = environment(p)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// environment returns the environment of the build. It fixes all that could make results
// differ between machines. The last of several values for a name wins. None may be empty,
// because then the value stored by `go env -w` counts. The comma means Go's default
// experiments; "none" would disable those, too, and with them its garbage collector.
func environment(p platform) []string {
	return append(os.Environ(),
		"GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0",
		"GOFLAGS=-mod=readonly", "GOEXPERIMENT=,", "GOFIPS140=off", "GOWORK=off")
}
