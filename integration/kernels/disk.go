package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// program is the path of kube-vmap in the machine, in a folder that all users can
// read.
const program = "/program/kube-vmap"

var environment = []string{
	"KUBE_VMAP_REQUIRE_KERNEL=1",
	"KUBE_VMAP_BINARY=" + program,
	"KUBE_VMAP_OWN_MACHINE=1",
}

//go:embed init
var first string

// disk is the folder with all files of a machine, from which its first file system is made.
type disk string

func (d disk) path(at string) string { return filepath.Join(string(d), at) }

// write writes a file that can be executed, and its folder.
func (d disk) write(at, content string) error {
	if err := os.MkdirAll(filepath.Dir(d.path(at)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(d.path(at), []byte(content), 0o755)
}

// copy adds files, and folders with their contents, to a folder of the machine. Their paths there
// are those below a folder of this machine. Links that are named are followed, those in folders
// are kept.
func (d disk) copy(to, below string, paths ...string) error {
	cmd := exec.Command("cp", append([]string{"-HR", "--parents", "-t", d.path(to)}, paths...)...)
	cmd.Dir = below
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy to the machine's disk: %w\n%s", err, out)
	}
	return nil
}

// addSuites adds the files that the suites read. Their programs are there.
func (d disk) addSuites(chosen []suite) error {
	var paths []string
	for _, s := range chosen {
		paths = append(append(paths, filepath.Join(s.name, "testdata")), s.reads...)
	}
	if paths = slices.DeleteFunc(paths, missing); len(paths) == 0 {
		return nil
	}
	return d.copy("/", ".", paths...)
}

// addPlan adds what the machine does when it has booted.
func (d disk) addPlan(m machine, modules []string, chosen []suite) error {
	var plan strings.Builder
	for _, setting := range append(slices.Clip(environment), "KUBE_VMAP_FLAGS="+m.flags) {
		fmt.Fprintln(&plan, "export", quote(setting))
	}
	fmt.Fprintln(&plan, "prepare", m.talk, strings.Join(modules, " "))
	for _, s := range chosen {
		fmt.Fprint(&plan, "run ", s.name)
		for _, arg := range s.args() {
			fmt.Fprint(&plan, " ", quote(arg))
		}
		fmt.Fprintln(&plan)
	}
	if err := d.write("/plan", plan.String()); err != nil {
		return err
	}
	return d.write("/init", first)
}

// quote returns a text as a word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// pack writes the archive that the kernel unpacks
// (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).
func (d disk) pack(archive string) error {
	const pack = `find . | cpio --create --quiet --format=newc --owner=+0:+0 >"$0"`
	cmd := exec.Command("sh", "-c", pack, archive)
	cmd.Dir = string(d)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pack the machine's disk: %w\n%s", err, out)
	}
	return nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}
