package matrix

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

// A debian is node-1 with the files of another Debian release, in which programs run that
// must not be installed on the machine. They see the node's network, and their changes to
// files are lost at the end of the test.
type debian struct {
	s   *scene
	pid string // of a process there
}

// enterScript mounts the folder $1, with changes to it in memory, and what a machine has besides
// files.
const enterScript = `
mount -t tmpfs none "$2"
mkdir "$2/changes" "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/changes,workdir=$2/work" none "$2/root"
cd "$2/root"
mount -t proc none proc
mount -t sysfs none sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs none run
mount -t tmpfs none tmp
mkdir -p run/dbus run/lock
exec chroot . sh -c 'touch /run/entered; exec sleep infinity'`

func newDebian(s *scene) *debian {
	s.t.Helper()
	root := s.otherProgram("debian")
	cmd := s.Node.Command(s.t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-ec", enterScript, "sh", root, s.t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	s.must(cmd.Start())
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	d := &debian{s: s, pid: strconv.Itoa(cmd.Process.Pid)}
	eventually.Succeeds(s.t, "the files are mounted", func() error {
		if _, err := os.Stat(d.path("run/entered")); err != nil {
			return fmt.Errorf("%w\n%s", err, &stderr)
		}
		return nil
	})
	return d
}

// path returns where the test finds a file of the machine.
func (d *debian) path(name string) string { return filepath.Join("/proc", d.pid, "root", name) }

func (d *debian) write(name, text string) {
	d.s.t.Helper()
	d.s.must(os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	d.s.must(os.WriteFile(d.path(name), []byte(text), 0o644))
}

// replace replaces a text in a file, which must be there.
func (d *debian) replace(name, old, text string) {
	d.s.t.Helper()
	b, err := os.ReadFile(d.path(name))
	d.s.must(err)
	if !strings.Contains(string(b), old) {
		d.s.t.Fatalf("%s does not contain %q", name, old)
	}
	d.write(name, strings.ReplaceAll(string(b), old, text))
}

// debianEnv is the environment of programs there.
var debianEnv = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}

// enter returns the arguments of nsenter for a program that runs there.
func (d *debian) enter(args ...string) []string {
	return append([]string{"--target", d.pid, "--mount", "--root", "--wd=/proc/" + d.pid + "/root"}, args...)
}

func (d *debian) command(args ...string) *lab.Cmd {
	cmd := d.s.Node.Command(d.s.t.Context(), "nsenter", d.enter(args...)...)
	cmd.Env = debianEnv
	return cmd
}

// run runs a program there, which must succeed, and returns its output.
func (d *debian) run(args ...string) string {
	d.s.t.Helper()
	out, err := d.command(args...).CombinedOutput()
	if err != nil {
		d.s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start starts a server there, which ends with the test. stop ends it earlier.
func (d *debian) start(args ...string) (stop func()) {
	t := d.s.t
	t.Helper()
	p, err := process.Start(t.Context(), process.Config{Program: "nsenter", Args: d.enter(args...), Env: debianEnv, Host: d.s.Node.Host})
	d.s.must(err)
	t.Cleanup(func() {
		if p.Kill(); t.Failed() {
			t.Logf("output of %s:\n%s%s", args[0], p.Stdout.Tail(), p.Log.Tail())
		}
	})
	return func() { _ = p.Signal(os.Interrupt); _ = p.Wait() }
}

// succeeds waits until a program succeeds there.
func (d *debian) succeeds(args ...string) {
	d.s.t.Helper()
	eventually.Succeeds(d.s.t, strings.Join(args, " "), func() error {
		out, err := d.command(args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}
