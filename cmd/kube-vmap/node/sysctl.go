package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// host accesses the settings.
type host struct {
	root            string // the directory with proc and sys in it
	write           func(name string, data []byte, mode fs.FileMode) error
	continueOnError bool // see [SetConntrack]
	log             *slog.Logger
}

type sysctl struct {
	name string // "net.netfilter.nf_conntrack_max"
	want int
	// largerStays never lowers a limit.
	largerStays bool
	// option is the flag that disables the setting.
	option string
}

// set sets the sysctl, and returns its value.
func (h *host) set(s sysctl) (is int, err error) {
	path := filepath.Join(h.root, "proc/sys", strings.ReplaceAll(s.name, ".", "/"))
	is, mode, err := readNumber(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("%s cannot be set to %d, because it does not exist here: "+
			"the node needs connection tracking (modprobe nf_conntrack); otherwise use %s: %w", s.name, s.want, s.option, err)
	case err != nil:
		return 0, fmt.Errorf("read %s, to set it to %d: %w; or use %s", s.name, s.want, err, s.option)
	case is == s.want, s.largerStays && is > s.want:
		return is, nil
	case mode&0o222 == 0:
		// Limits of the machine are writable in its first network namespace only.
		h.log.Warn("sysctl left unchanged: only the host's network namespace can change it",
			"name", s.name, "value", is, "configured", s.want)
		return is, nil
	}
	err = h.write(path, []byte(strconv.Itoa(s.want)), 0)
	switch {
	case err == nil:
		h.log.Info("sysctl set", "name", s.name, "value", s.want, "previous", is)
		return s.want, nil
	case !forbidden(err):
		return is, fmt.Errorf("%s is %d and cannot be set to %d; set it on the node, or use %s: %w",
			s.name, is, s.want, s.option, err)
	}
	err = fmt.Errorf("%s is %d and must not be set to %d from here; set it on the node, run kube-vmap --init-only before "+
		"in a privileged init container, or use %s: %w", s.name, is, s.want, s.option, err)
	if h.continueOnError {
		h.log.Error("sysctl differs from the configuration, continuing", "name", s.name, "err", err)
		return is, nil
	}
	return is, err
}

// forbidden reports whether writing is not allowed, rather than the value invalid.
func forbidden(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)
}

func readNumber(path string) (n int, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return n, info.Mode(), err
}
