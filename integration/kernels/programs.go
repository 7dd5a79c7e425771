package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
)

// programs are the programs of this machine that tests run, and that the wrappers of
// other versions of nft need.
var programs = []string{
	"nft", "ip", "sh", "readlink", "dirname", "true", "sleep", "ipvsadm", "ipset",
	"iptables-nft", "iptables-nft-save", "iptables-nft-restore",
	"ip6tables-nft", "ip6tables-nft-save", "ip6tables-nft-restore",
	"iptables-legacy", "iptables-legacy-save", "iptables-legacy-restore",
	"ip6tables-legacy", "ip6tables-legacy-save", "ip6tables-legacy-restore",
}

// extensions are the folders of iptables' extensions, on any architecture.
const extensions = "/usr/lib/*/xtables/*.so"

// settings are files of this machine that its programs read. They may be missing.
var settings = []string{"/etc/protocols", "/etc/services", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/iproute2"}

// addPrograms adds programs to the disk, and files that they read. For another
// architecture they are beside the kernel.
func addPrograms(a *archive, kernel string) error {
	fetched := filepath.Join(kernel, "programs")
	if exists(fetched) {
		a.copy("/", fetched)
	} else if err := addOwnPrograms(a); err != nil {
		return err
	}
	for _, path := range settings {
		if exists(path) {
			a.copy(path, path)
		}
	}
	return nil
}

// addOwnPrograms adds programs of this machine, with their libraries, and the other
// version of nft that tests expect.
func addOwnPrograms(a *archive) error {
	var loaders []string // dynamic loaders
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("tests need %s: %w", name, err)
		}
		a.copy("/usr/bin/"+name, path)
		loaders = append(loaders, path)
	}
	more, err := filepath.Glob(extensions)
	if err != nil {
		return err
	}
	for _, path := range more {
		a.copy(path, path)
	}
	libraries, err := librariesOf(append(loaders, more...)...)
	if err != nil {
		return err
	}
	for _, l := range libraries {
		a.copy(l, l)
	}
	a.link("/bin", "/usr/bin")
	if dir := ".cache/nft/trixie"; exists(dir) {
		a.copy("/"+dir, dir)
	}
	return nil
}

var library = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

// librariesOf returns the libraries of programs, including the loader.
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
