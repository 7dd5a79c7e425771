package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab/labtest"
)

// cgroup is a group of processes whose memory is limited, including kernel memory.
type cgroup struct {
	dir       string
	limit     string // the file of the limit
	unlimited string // its content without a limit
	swap      string // the file that disables swap with the content 0
}

// newCgroup creates a group below that of the test's process, in either version of the
// interface; in version 2, below the nearest group in which memory can be limited.
func newCgroup(t *testing.T) *cgroup {
	t.Helper()
	labtest.Require(t)
	var errs []error
	for _, place := range memoryGroups(t) {
		g, err := place.create()
		if err == nil {
			t.Cleanup(func() { eventually.Succeeds(t, "remove the cgroup", func() error { return os.Remove(g.dir) }) })
			return g
		}
		errs = append(errs, err)
	}
	labtest.Lacking(t, fmt.Errorf("create a cgroup with a memory limit: %w", errors.Join(errs...)))
	return nil
}

// memoryGroups returns the groups below which one might be created.
func memoryGroups(t *testing.T) (found []cgroup) {
	t.Helper()
	mounts, own := table(t, "/proc/self/mounts", " "), table(t, "/proc/self/cgroup", ":")
	for _, m := range mounts {
		one := m[2] == "cgroup" && slices.Contains(strings.Split(m[3], ","), "memory")
		if !one && m[2] != "cgroup2" {
			continue
		}
		for _, o := range own {
			switch {
			case one && slices.Contains(strings.Split(o[1], ","), "memory"):
				found = append(found, cgroup{m[1] + o[2], "memory.limit_in_bytes", "-1", "memory.swappiness"})
			case !one && o[1] == "":
				for dir := m[1] + o[2]; len(dir) >= len(m[1]); dir = filepath.Dir(dir) {
					found = append(found, cgroup{dir, "memory.max", "max", "memory.swap.max"})
				}
			}
		}
	}
	return found
}

// table returns the fields of a file's lines that have at least three.
func table(t *testing.T, path, separator string) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), separator, 5); len(fields) >= 3 {
			lines = append(lines, fields)
		}
	}
	return lines
}

// create creates a group below this one.
func (g cgroup) create() (*cgroup, error) {
	g.dir = filepath.Join(g.dir, fmt.Sprintf("kube-vmap-test-%d", os.Getpid()))
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(g.dir, g.limit)); err != nil {
		return nil, errors.Join(err, os.Remove(g.dir))
	}
	// It does not exist in kernels without swap.
	swap, err := os.OpenFile(filepath.Join(g.dir, g.swap), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &g, nil
	}
	if err == nil {
		_, err = swap.WriteString("0")
		err = errors.Join(err, swap.Close())
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(g.dir))
	}
	return &g, nil
}

// by returns the command that runs another command in the group.
func (g *cgroup) by() []string {
	return []string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}
}

// allow sets the limit, in bytes; 0 means none.
func (g *cgroup) allow(t *testing.T, bytes int) {
	t.Helper()
	text := strconv.Itoa(bytes)
	if bytes == 0 {
		text = g.unlimited
	}
	if err := os.WriteFile(filepath.Join(g.dir, g.limit), []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}
