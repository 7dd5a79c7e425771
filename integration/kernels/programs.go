package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// programs are the programs of this machine that tests run, and that the wrappers of
// other versions of nft need.
var programs = []string{
	"nft", "ip", "sh", "readlink", "dirname", "true", "sleep", "ipvsadm", "ipset",
	"mount", "modprobe", "ln", "uname", // of init
	"iptables-nft", "iptables-nft-save", "iptables-nft-restore",
	"ip6tables-nft", "ip6tables-nft-save", "ip6tables-nft-restore",
	"iptables-legacy", "iptables-legacy-save", "iptables-legacy-restore",
	"ip6tables-legacy", "ip6tables-legacy-save", "ip6tables-legacy-restore",
}

// extensions are the folders of iptables' extensions, on any architecture.
const extensions = "/usr/lib/*/xtables/*.so"

// settings are files that these programs read, and nfts other versions of nft that tests expect.
// They may be missing.
var (
	settings = []string{
		"/etc/protocols", "/etc/services", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/iproute2",
	}
	nfts = []string{".cache/nft/trixie", ".cache/nft/forky"}
)

// addPrograms adds programs to the disk, and files that they read. For another
// architecture they are beside the kernel.
func (d disk) addPrograms(kernel string) error {
	for _, dir := range []string{"dev", "proc", "sys", "tmp", "run", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"} {
		if err := os.MkdirAll(d.path(dir), 0o755); err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(dir, "usr/"); ok {
			if err := os.Symlink(dir, d.path(name)); err != nil {
				return err
			}
		}
	}
	paths := slices.DeleteFunc(slices.Clone(settings), missing)
	if fetched := filepath.Join(kernel, "programs"); !missing(fetched) {
		return errors.Join(d.copy("/", fetched, "usr", "etc", ".cache"), d.copy("/", ".", paths...))
	}
	loaded, err := filepath.Glob(extensions)
	if err != nil {
		return err
	}
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("tests need %s: %w", name, err)
		}
		loaded = append(loaded, path)
	}
	libraries, err := librariesOf(loaded...)
	if err != nil {
		return err
	}
	paths = append(paths, slices.DeleteFunc(slices.Clone(nfts), missing)...)
	return d.copy("/", ".", slices.Concat(paths, loaded, libraries)...)
}

var library = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

func librariesOf(programs ...string) ([]string, error) {
	out, err := exec.Command("ldd", programs...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the libraries of %v: %w", programs, err)
	}
	var paths []string
	for _, match := range library.FindAllStringSubmatch(string(out), -1) {
		paths = append(paths, filepath.Clean(match[1]))
	}
	return paths, nil
}
