package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab/labtest"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

func TestDemoRunsToItsEnd(t *testing.T) {
	d := build(t)
	r := d.run("")
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("exit code %d, stderr %q, after:\n%s", r.code, r.stderr, r.stdout)
	}
	const most = 45 // lines that a newcomer reads
	if n := strings.Count(r.stdout, "\n"); n > most {
		t.Errorf("there are %d lines", n)
	}
	for i, c := range sections {
		if !strings.Contains(r.stdout, fmt.Sprintf("\n%2d. %s\n", i+1, c.title)) {
			t.Errorf("section %d, %q, is missing", i+1, c.title)
		}
	}
	for _, want := range []string{
		"      applied services=2 ", "      nginx: pod-1 ", "      dns: pod-1 ", "refused within ",
		": 10.244.1.1, fd00:10:244:1::1\n", ": 192.0.2.100, 2001:db8:2::100\n", "\nEverything above was verified.",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("there is no %q", want)
		}
	}
	d.nothingLeft()
	if t.Failed() {
		t.Logf("stdout:\n%s", r.stdout)
	}
}

// TestInterruptedDemoLeavesNothing has details printed, too.
func TestInterruptedDemoLeavesNothing(t *testing.T) {
	d := build(t)
	d.arguments = []string{"-v"}
	r := d.run(" 6. nginx")
	if r.code != 1 || !strings.Contains(r.stderr, "interrupted") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
	}
	for _, detail := range []string{"| add element ip kube-vmap ", "from outside: pod-1 "} {
		if !strings.Contains(r.stdout, detail) {
			t.Errorf("-v: %q is missing:\n%s", detail, r.stdout)
		}
	}
	d.nothingLeft()
}

// programs are the two programs, and a folder for their temporary files.
type programs struct {
	t                           *testing.T
	dir, demo, proxy, temporary string
	arguments                   []string
}

// build returns the programs, in a folder of their own: nothingLeft searches for
// processes that run them.
func build(t *testing.T) *programs {
	t.Helper()
	t.Parallel()
	labtest.Require(t)
	dir := t.TempDir()
	b := &programs{t: t, dir: dir, demo: dir + "/demo", proxy: dir + "/kube-vmap", temporary: dir + "/tmp"}
	// A file that this process writes can be busy: another test's child has it open until its exec.
	b.must(exec.Command("cp", daemon.Program(t), b.proxy).Run())
	b.must(os.Mkdir(b.temporary, 0o755))
	if out, err := exec.Command("go", "build", "-o", b.demo, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return b
}

func (b *programs) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// result is the result of a run.
type result struct {
	stdout, stderr string
	code           int
}

// run runs the demo. Once it has written a line with this beginning, its process group is
// interrupted, as a terminal does.
func (b *programs) run(line string) result {
	b.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(b.t.Context(), b.demo, append(b.arguments, b.proxy)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+b.temporary)
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdoutPipe()
	b.must(err)
	b.must(cmd.Start())
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		stdout.WriteString(lines.Text() + "\n")
		if line != "" && strings.HasPrefix(lines.Text(), line) {
			b.must(syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
		}
	}
	_ = cmd.Wait() // see the exit code
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// nothingLeft fails the test if a run left processes or files. Namespaces end with the
// processes.
func (b *programs) nothingLeft() {
	b.t.Helper()
	files, err := os.ReadDir(b.temporary)
	if err != nil || len(files) > 0 {
		b.t.Errorf("left files: %v, %v", files, err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	b.must(err)
	for _, link := range links {
		if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, b.dir) {
			b.t.Errorf("left a process: %s is %s", link, path)
		}
	}
}
