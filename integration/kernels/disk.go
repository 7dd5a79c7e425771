package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
		for _, name := range s.unused {
			if err := d.write(filepath.Join(filepath.Dir(program), name), ""); err != nil {
				return err
			}
		}
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

// wantedModules are the modules of a machine, as folders or files below modules/kernel.
// Their dependencies are added.
var wantedModules = []string{
	"net/",
	"drivers/net/dummy.ko", "drivers/net/veth.ko",
	"crypto/", "arch/x86/crypto/", "arch/arm64/crypto/", "lib/", // checksums, mostly
}

// unwantedModules are excluded: the lab implements SCTP over raw sockets, which the
// kernel's own SCTP would disturb.
const unwantedModules = "net/sctp/"

// early matches the modules that are loaded before the first test: those for rules, flows
// and test networks. If the kernel loaded them on demand, the first program that loads a
// rule set would wait for all of them, which takes longer on an emulated processor than
// tests wait. Connection tracking helpers and br_netfilter are not among them: they
// change what happens to packets.
var early = regexp.MustCompile(`^kernel/(?:` +
	`net/(?:netfilter|ipv[46]/netfilter)/(?:nf_tables|nft_\w+|nf_conntrack|nf_conntrack_netlink|nf_nat|nf_reject_\w+)` +
	`|net/packet/af_packet|drivers/net/(?:dummy|veth))\.ko$`)

// addModules adds a kernel's modules to the disk, in place of another one's, with depmod's lists
// of all. It returns the names of those to load early.
func (d disk) addModules(kernel string) (load []string, err error) {
	const to = "/lib/modules"
	dir := filepath.Join(kernel, "modules")
	list, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("list the modules: %w", err)
	}
	needs := map[string][]string{}
	for line := range strings.Lines(string(list)) {
		file, needed, _ := strings.Cut(strings.TrimSpace(line), ":")
		needs[file] = strings.Fields(needed)
		if early.MatchString(file) {
			load = append(load, strings.TrimSuffix(filepath.Base(file), ".ko"))
		}
	}
	lists, err := filepath.Glob(filepath.Join(dir, "modules.*"))
	if err != nil {
		return nil, err
	}
	files := chosenModules(needs)
	for _, list := range lists {
		files = append(files, filepath.Base(list))
	}
	if err := errors.Join(os.RemoveAll(d.path(to)), os.MkdirAll(d.path(to), 0o755)); err != nil {
		return nil, err
	}
	return load, d.copy(to, dir, files...)
}

// chosenModules returns the files of a machine's modules.
func chosenModules(needs map[string][]string) []string {
	var files []string
	for file, needed := range needs {
		below := strings.TrimPrefix(file, "kernel/")
		wanted := slices.ContainsFunc(wantedModules, func(prefix string) bool { return strings.HasPrefix(below, prefix) })
		if wanted && !strings.HasPrefix(below, unwantedModules) {
			files = append(files, file)
			files = append(files, needed...)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
