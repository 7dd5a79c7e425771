package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestArchiveContainsItsFiles(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	if err := os.MkdirAll(filepath.Join(from, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"odd": "12345", "below/empty": "", "below/even": "1234"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("odd", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(dir, "disk")
	a, err := newArchive(disk)
	if err != nil {
		t.Fatal(err)
	}
	a.text("/etc/deep/text", "a line\n")
	a.copy("/folder", from)
	a.text("/etc/deep/text", "what is there already stays")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	to := unpack(t, disk)
	for name, want := range map[string]string{
		"etc/deep/text": "a line\n", "folder/odd": "12345", "folder/link": "12345",
		"folder/below/empty": "", "folder/below/even": "1234",
	} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(to, "folder/odd")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the program is not executable: %v, %v", info.Mode(), err)
	}
}

// unpack unpacks an archive with cpio.
func unpack(t *testing.T, disk string) (dir string) {
	t.Helper()
	path, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("cpio cannot be had")
	}
	file, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command(path, "--extract", "--make-directories", "--quiet")
	cmd.Stdin, cmd.Dir = file, t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("cpio: %v\n%s", err, out)
	}
	return cmd.Dir
}

func TestIncompleteDiskIsAnError(t *testing.T) {
	a, err := newArchive(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	a.copy("/missing", "/does/not/exist")
	a.text("/there", "")
	if err := a.close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want an error for a missing file", err)
	}
}

func TestModulesIncludeDependenciesButNotSCTP(t *testing.T) {
	got := chosenModules(map[string][]string{
		"kernel/net/netfilter/nf_tables.ko": {"kernel/net/netfilter/nfnetlink.ko", "kernel/drivers/needed.ko"},
		"kernel/net/sctp/sctp.ko":           {"kernel/lib/sum.ko"},
		"kernel/net/netfilter/xt_sctp.ko":   nil,
		"kernel/drivers/net/veth.ko":        nil,
		"kernel/drivers/net/other.ko":       nil,
	})
	want := []string{
		"kernel/drivers/needed.ko", "kernel/drivers/net/veth.ko", "kernel/net/netfilter/nf_tables.ko",
		"kernel/net/netfilter/nfnetlink.ko", "kernel/net/netfilter/xt_sctp.ko",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOtherArchitecturesRunASample(t *testing.T) {
	for _, tt := range []struct {
		arch, suites, tests string
		want                string // the flag that chooses tests of integration/matrix; "-" if it does not run
		demo                bool
	}{
		{"amd64", "", "", "", true},
		{"amd64", "", "TestMatrix", "-test.run=TestMatrix", false},
		{"amd64", "lab", "", "-", false},
		{"arm64", "", "", "-test.run=^TestMatrix$/", true},
		{"arm64", "matrix", "", "", false},
		{"arm64", "demo", "", "-", true},
		{"arm64", "", "TestMatrix", "-test.run=TestMatrix", false},
	} {
		o := options{arch: tt.arch, suites: regexp.MustCompile(tt.suites), tests: regexp.MustCompile(tt.tests)}
		got, demo := "-", false
		for _, s := range o.chosen() {
			switch s.name {
			case "integration/matrix":
				got = strings.Join(slices.DeleteFunc(s.args(), func(arg string) bool { return !strings.HasPrefix(arg, "-test.run") }), "")
			case "integration/demo":
				demo = true
			}
		}
		if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" || demo != tt.demo {
			t.Errorf("%s, suites %q, tests %q: %q, demo %v; want %q, %v", tt.arch, tt.suites, tt.tests, got, demo, tt.want, tt.demo)
		}
	}
}

func TestFetchedProgramsReplaceThoseOfThisMachine(t *testing.T) {
	kernel := t.TempDir()
	for name, content := range map[string]string{"usr/sbin/nft": "fetched", "usr/lib/ld.so": "loader"} {
		file := filepath.Join(kernel, "programs", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"lib", "sbin"} {
		if err := os.Symlink("usr/"+name, filepath.Join(kernel, "programs", name)); err != nil {
			t.Fatal(err)
		}
	}
	disk := filepath.Join(t.TempDir(), "disk")
	a, err := newArchive(disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(addPrograms(a, kernel), a.close()); err != nil {
		t.Fatal(err)
	}
	to := unpack(t, disk)
	for name, want := range map[string]string{"usr/sbin/nft": "fetched", "sbin/nft": "fetched", "lib/ld.so": "loader"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if exists(filepath.Join(to, "usr/bin/nft")) {
		t.Error("nft of this machine is there, too")
	}
}

func TestProgramOfTheImageIsTested(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "kube-vmap-linux-arm64")
	if err := os.WriteFile(program, []byte("shipped"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := useProgram(program, filepath.Join(dir, proxy)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, proxy)); err != nil || string(got) != "shipped" {
		t.Errorf("%q, %v", got, err)
	}
	if err := useProgram(filepath.Join(dir, "missing"), filepath.Join(dir, "other")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want an error for a missing file", err)
	}
}

func TestRelayReturnsTheMachineResult(t *testing.T) {
	for _, tt := range []struct {
		says, want string // want is the error, or none
	}{
		{"ok\r\nsuites that failed: 0\r\n", ""},
		{"FAIL\r\nsuites that failed: 2\r\n", "2 suites failed"},
		{"ok\r\nsuites that failed: ", " suites failed"},
		{"ok\r\n", errDied.Error()},
		{"", errDied.Error()},
	} {
		var out bytes.Buffer
		err := relay(&out, strings.NewReader(tt.says))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.says, got, tt.want)
		}
		if strings.Contains(out.String(), "\r") || strings.Contains(out.String(), "suites that") {
			t.Errorf("%q is printed as %q", tt.says, out.String())
		}
	}
}

func TestKernelWarningsAreErrors(t *testing.T) {
	console := filepath.Join(t.TempDir(), "console")
	for text, fine := range map[string]bool{
		"[    0.5] acpi PNP0A03:00: fail to add MMCONFIG information\n":                          true,
		"[    0.1] Spectre V2 : WARNING: Unprivileged eBPF is enabled\n":                         true,
		"[   12.4] ------------[ cut here ]------------\n[   12.4] WARNING: net/core/dev.c:1\n":  false,
		"[   20.0] rcu: INFO: rcu_preempt self-detected stall on CPU\n":                          false,
		"[   33.1] unregister_netdevice: waiting for lo to become free. Usage count = 2\n":       false,
		"[  242.8] INFO: task kworker/u2:1:34 blocked for more than 120 seconds.\n":              false,
		"[   19.3] WARNING: CPU: 0 PID: 100 at net/netfilter/nf_tables_api.c:2049\n":             false,
		"[   19.3] BUG: kernel NULL pointer dereference\n[    4.2] Kernel panic - not syncing\n": false,
	} {
		if err := os.WriteFile(console, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := withConsole(nil, console)
		if fine != (err == nil) || !fine && !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLibrariesOfPrograms(t *testing.T) {
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := librariesOf(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"libc.so", "ld-linux"} {
		if !slices.ContainsFunc(libraries, func(l string) bool { return strings.Contains(l, want) && exists(l) }) {
			t.Errorf("%s needs %v, without %s", path, libraries, want)
		}
	}
}

// TestNamedTestsExist finds patterns that no longer match because tests were renamed.
func TestNamedTestsExist(t *testing.T) {
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, s := range suites {
		files, err := filepath.Glob(filepath.Join("..", "..", s.name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var tests []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declaration.FindAllSubmatch(text, -1) {
				tests = append(tests, string(m[1]))
			}
		}
		patterns := alternatives(s.skip)
		if s.sample != everything {
			patterns = append(patterns, alternatives(s.sample)...)
		}
		for _, pattern := range patterns {
			if !slices.ContainsFunc(tests, regexp.MustCompile(pattern).MatchString) {
				t.Errorf("%s: no test matches %q", s.name, pattern)
			}
		}
	}
}

// alternatives returns the patterns of tests in an expression like "^TestA$/case|^Test(B|C)",
// which may have one pair of parentheses, in its last part.
func alternatives(expression string) []string {
	outside, list, ok := strings.Cut(expression, "(")
	parts := strings.Split(outside, "|")
	if ok {
		last := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		list, after, _ := strings.Cut(list, ")")
		for alternative := range strings.SplitSeq(list, "|") {
			parts = append(parts, last+alternative+after)
		}
	}
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, "/")
	}
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}
