package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dirPrefix begins the names of the folders of planes; the process's number
// follows.
const dirPrefix = "kube-vmap-plane-"

// makeDir makes a folder for a plane's files and removes those of planes whose
// process is gone.
func makeDir() (string, error) {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return "", fmt.Errorf("look for folders of old control planes: %w", err)
	}
	for _, dir := range old {
		if !abandoned(filepath.Base(dir)) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return "", fmt.Errorf("remove the folder of an old control plane: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("make the control plane's folder: %w", err)
	}
	return dir, nil
}

func abandoned(name string) bool {
	pid, _, ok := strings.Cut(strings.TrimPrefix(name, dirPrefix), "-")
	n, err := strconv.Atoi(pid)
	return ok && err == nil && errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// ErrNotBuilt means that the programs of the control plane do not exist.
var ErrNotBuilt = errors.New("the programs of the control plane are not built; .ci/cluster builds them")

// Program returns the path of one of the programs that .ci/cluster builds, such as
// "kubectl" or "kube-proxy". The error is an [ErrNotBuilt] if it did not.
func Program(name string) (string, error) {
	dir, err := programs()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}

// programs returns the folder of the programs, found from the working directory up.
func programs() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the programs of the control plane: %w", err)
	}
	for {
		// The stamp is written last.
		if _, err := os.Stat(filepath.Join(at, ".cache", "cluster", "stamp")); err == nil {
			return filepath.Join(at, ".cache", "cluster"), nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", ErrNotBuilt
		}
		at = up
	}
}

func (p *Plane) file(name string) string { return filepath.Join(p.dir, name) }
