package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	stdsync "sync"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab/labtest"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// limit is when a run that hangs is killed.
const limit = 10 * time.Minute

func TestDemoRunsToItsEnd(t *testing.T) {
	t.Parallel()
	labtest.Require(t)
	d := build(t)
	r := d.run(d.proxy, "", 0)
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
	d.nothingLeft(r.pid)
	if t.Failed() {
		t.Logf("stdout:\n%s", r.stdout)
	}
}

// TestInterruptedDemoLeavesNothing has details printed, too.
func TestInterruptedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	labtest.Require(t)
	d := build(t)
	d.arguments = []string{"-v"}
	for _, c := range []struct {
		line   string // at whose beginning the signal is sent
		signal syscall.Signal
	}{
		{" 1. kube-vmap starts", syscall.SIGINT},
		{" 2. pod-2", syscall.SIGTERM},
		{" 6. nginx", closedPipe},
		{"11. kube-vmap starts again", syscall.SIGHUP},
	} {
		r := d.run(d.proxy, c.line, c.signal)
		if r.code != 1 || !strings.Contains(r.stderr, "interrupted") {
			t.Errorf("%s at %q: exit code %d, stderr %q", c.signal, c.line, r.code, r.stderr)
		}
		if strings.Contains(r.stdout, "Everything above was verified") {
			t.Errorf("%s at %q: not interrupted", c.signal, c.line)
		}
		for _, detail := range []string{"| add element ip kube-vmap ", "from outside: pod-1 "} {
			if c.signal == syscall.SIGHUP && !strings.Contains(r.stdout, detail) {
				t.Errorf("-v: %q is missing:\n%s", detail, r.stdout)
			}
		}
		d.nothingLeft(r.pid)
	}
}

func TestFailureIsOneLineOnStderr(t *testing.T) {
	t.Parallel()
	labtest.Require(t)
	d := build(t)
	for program, want := range map[string]string{
		"/bin/false":      `^demo: section "kube-vmap starts.*" failed: kube-vmap ended: exit status 1$`,
		"/does/not/exist": `^demo: cannot run: .*no such file`,
	} {
		r := d.run(program, "", 0)
		if r.code != 1 || !isLine(r.stderr, want) {
			t.Errorf("%s: exit code %d, stderr %q, want %q", program, r.code, r.stderr, want)
		}
		d.nothingLeft(r.pid)
	}
	d.as = &syscall.Credential{Uid: 65534, Gid: 65534}
	r := d.run(d.proxy, "", 0)
	if r.code != 1 || r.stdout != "" || !isLine(r.stderr, `^demo: .*needs root`) {
		t.Errorf("without root: exit code %d, %q, stderr %q", r.code, r.stdout, r.stderr)
	}
}

func isLine(text, pattern string) bool {
	return strings.Count(text, "\n") == 1 && regexp.MustCompile(pattern).MatchString(strings.TrimSpace(text))
}

// programs are the two programs, and a folder for their temporary files.
type programs struct {
	t           *testing.T
	dir         string
	demo, proxy string
	temporary   string
	arguments   []string
	as          *syscall.Credential // nil means the user of the test
}

// build returns the programs, in a folder of their own: nothingLeft searches for
// processes that run them. Users without any rights can execute them.
func build(t *testing.T) *programs {
	t.Helper()
	dir := t.TempDir()
	b := &programs{t: t, dir: dir, demo: dir + "/demo", proxy: dir + "/kube-vmap", temporary: dir + "/tmp"}
	steps := []error{os.Mkdir(b.temporary, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)}
	program, err := os.ReadFile(daemon.Program(t))
	steps = append(steps, err, os.WriteFile(b.proxy, program, 0o755))
	if program, err = demoProgram(); err == nil {
		err = os.WriteFile(b.demo, program, 0o755)
	}
	if err := errors.Join(append(steps, err)...); err != nil {
		t.Fatal(err)
	}
	return b
}

// demoProgram builds the demo once and returns its content.
var demoProgram = stdsync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "kube-vmap-demo-test-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if out, err := exec.Command("go", "build", "-o", dir+"/demo", "kube-vmap/integration/demo").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return os.ReadFile(dir + "/demo")
})

// result is the result of a run.
type result struct {
	stdout, stderr string
	code, pid      int
}

// closedPipe means that the reader closes the pipe.
const closedPipe = syscall.SIGPIPE

// run runs the demo. Once it has written the line, the signal is sent to its
// process group, as a terminal does.
func (b *programs) run(program, line string, signal syscall.Signal) result {
	b.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(b.demo, append(b.arguments, program)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+b.temporary)
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: b.as}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	watchdog := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		stdout.WriteString(lines.Text() + "\n")
		if line == "" || !strings.HasPrefix(lines.Text(), line) {
			continue
		}
		if signal == closedPipe {
			pipe.Close()
		} else if err := syscall.Kill(-cmd.Process.Pid, signal); err != nil {
			b.t.Error(err)
		}
	}
	_ = cmd.Wait() // see the exit code
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode(), cmd.Process.Pid}
}

// nothingLeft fails the test if a run left processes, files, or namespaces with the
// number of its process in their names. Other namespaces end with the processes.
func (b *programs) nothingLeft(pid int) {
	b.t.Helper()
	files, err := os.ReadDir(b.temporary)
	if err != nil || len(files) > 0 {
		b.t.Errorf("left files: %v, %v", files, err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, link := range links {
		if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, b.dir) {
			b.t.Errorf("left a process: %s is %s", link, path)
		}
	}
	names, err := filepath.Glob(fmt.Sprintf("/run/netns/*-%d-*", pid))
	if err != nil || len(names) > 0 {
		b.t.Errorf("left namespaces: %v, %v", names, err)
	}
}
