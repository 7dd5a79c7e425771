package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/lab/labtest"
)

// limit is how long the whole story may take.
const limit = time.Minute

func TestTheStoryIsAsTold(t *testing.T) {
	labtest.Require(t)
	d := build(t)
	start := time.Now()
	r := d.run(d.proxy, "", 0)
	if took := time.Since(start); took > limit {
		t.Errorf("it took %s", took)
	}
	if r.code != 0 || r.complaints != "" {
		t.Fatalf("exit code %d, complaints: %q, after:\n%s", r.code, r.complaints, r.text)
	}
	found, written := 1, 8
	if strings.Contains(r.text, "flags owner, persist") { // what a restart writes where the kernel protects tables
		found, written = 0, 9
	}
	for pattern, times := range map[string]int{
		`(?m)^   \| applied services=2 endpoints=\d+ batches=1 messages=\d+ bytes=\d+ .*took=`: written,
		`(?m)^  +Hi from pod-\d +\d+ #+ +\d+ #+ +\d+ #+$`:                                      74,
		`(?m)^  +Hi from pod-4 `:                                      2,
		`(?m)^  +connection refused after( +\d+\.\d\d ms){3}$`:        2,
		`(?m)^   \| nothing to change$`:                               found,
		`(?m)^   outside \$ curl http://.*/whoami +10\.244\.1\.1$`:    2,
		`(?m)^   outside \$ curl http://.*/whoami +fd00:10:244:1::1$`: 2,
		`(?m)^   outside \$ curl http://.*/whoami +192\.0\.2\.100$`:   2,
		`(?m)^   outside \$ curl http://.*/whoami +2001:db8:2::100$`:  2,
		`(?m)^   \| table ip kube-vmap \{$`:                           1,
		`(?m)^   table ip6 kube-vmap is another \d+ lines`:            1,
		`(?m)^All as told\.`:                                          1,
	} {
		if n := len(regexp.MustCompile(pattern).FindAllString(r.text, -1)); n != times {
			t.Errorf("%q occurs %d times, want %d", pattern, n, times)
		}
	}
	for i, c := range chapters {
		if !strings.Contains(r.text, fmt.Sprintf("\n%d. %s\n", i+1, c.title)) {
			t.Errorf("there is no chapter %d, %q", i+1, c.title)
		}
	}
	d.nothingLeft(r.pid)
	if t.Failed() {
		t.Logf("the story:\n%s", r.text)
	}
}

func TestAnInterruptedStoryLeavesNothing(t *testing.T) {
	labtest.Require(t)
	d := build(t)
	for _, c := range []struct {
		line   string // at which the signal is sent
		signal syscall.Signal
	}{
		{"1. A cluster on one machine", syscall.SIGINT},
		{"4. Who answers", syscall.SIGINT},
		{"8. A pod is replaced", syscall.SIGTERM},
		{"12. Clients keep their addresses", syscall.SIGINT},
		{"15. kube-vmap starts again", syscall.SIGHUP},
		{"16. What the kernel holds", syscall.SIGINT},
		{"6. A pod goes", closedPipe},
	} {
		r := d.run(d.proxy, c.line, c.signal)
		if r.code != 1 || !strings.Contains(r.complaints, "interrupted") {
			t.Errorf("%s at %q: exit code %d, complaints: %s", c.signal, c.line, r.code, r.complaints)
		}
		if strings.Contains(r.text, "All as told") {
			t.Errorf("%s at %q: the story was told to its end", c.signal, c.line)
		}
		d.nothingLeft(r.pid)
	}
}

func TestWhatDoesNotWorkIsSaidInOneLine(t *testing.T) {
	labtest.Require(t)
	d := build(t)
	for program, want := range map[string]string{
		"/bin/false":      `^demo: "kube-vmap starts" is not as told: kube-vmap ended by itself: exit status 1$`,
		"/does/not/exist": `^demo: cannot run: .*no such file`,
	} {
		r := d.run(program, "", 0)
		if r.code != 1 || !isLine(r.complaints, want) {
			t.Errorf("%s: exit code %d, complaints: %q, want %q", program, r.code, r.complaints, want)
		}
		d.nothingLeft(r.pid)
	}
	d.as = &syscall.Credential{Uid: 65534, Gid: 65534}
	r := d.run(d.proxy, "", 0)
	if r.code != 1 || r.text != "" || !isLine(r.complaints, `^demo: .*needs root`) {
		t.Errorf("without root: exit code %d, %q, complaints: %q", r.code, r.text, r.complaints)
	}
}

func isLine(text, pattern string) bool {
	return strings.Count(text, "\n") == 1 && regexp.MustCompile(pattern).MatchString(strings.TrimSpace(text))
}

// built are the two programs, and a folder for their temporary files.
type built struct {
	t           *testing.T
	dir         string
	demo, proxy string
	temporary   string
	as          *syscall.Credential // nil is who runs the test
}

func build(t *testing.T) *built {
	t.Helper()
	dir := t.TempDir()
	b := &built{t: t, dir: dir, demo: dir + "/demo", proxy: dir + "/kube-vmap", temporary: dir + "/tmp"}
	if err := os.Mkdir(b.temporary, 0o755); err != nil {
		t.Fatal(err)
	}
	// Also those who may not do anything else must be able to run them.
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, pkg := range map[string]string{b.demo: "kube-vmap/integration/demo", b.proxy: "kube-vmap/cmd/kube-vmap"} {
		if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", pkg, err, out)
		}
	}
	return b
}

// told is what came of a run.
type told struct {
	text, complaints string
	code, pid        int
}

// closedPipe stands for the end of whoever reads.
const closedPipe = syscall.SIGPIPE

// run runs the demo. Once it has written the line, the signal is sent to its
// process group, as a terminal does.
func (b *built) run(program, line string, signal syscall.Signal) told {
	b.t.Helper()
	var complaints, text bytes.Buffer
	cmd := exec.Command(b.demo, program)
	cmd.Env = append(os.Environ(), "TMPDIR="+b.temporary)
	cmd.Stderr = &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: b.as}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	hung := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if line == "" || lines.Text() != line {
			continue
		}
		if signal == closedPipe {
			pipe.Close()
		} else if err := syscall.Kill(-cmd.Process.Pid, signal); err != nil {
			b.t.Error(err)
		}
	}
	_ = cmd.Wait() // the exit code tells
	return told{text.String(), complaints.String(), cmd.ProcessState.ExitCode(), cmd.Process.Pid}
}

// nothingLeft looks for what a run may have left: processes, files, and
// namespaces with the number of its process in their names. Nameless ones end
// with the processes.
func (b *built) nothingLeft(pid int) {
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
