package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// programs are those of this machine that tests run, and that the wrappers of
// other versions of nft need.
var programs = []string{"nft", "ip", "sh", "readlink", "dirname", "true", "sleep"}

// settings are files of this machine that its programs read. They may be missing.
var settings = []string{"/etc/protocols", "/etc/services", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/iproute2"}

// addPrograms puts programs into the disk, with their libraries.
func addPrograms(a *archive) error {
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("tests need %s: %w", name, err)
		}
		a.copy("/usr/bin/"+name, path)
		libraries, err := librariesOf(path)
		if err != nil {
			return err
		}
		for _, l := range libraries {
			a.copy(l, l)
		}
	}
	a.link("/bin", "/usr/bin")
	for _, path := range settings {
		if _, err := os.Stat(path); err == nil {
			a.copy(path, path)
		}
	}
	return nil
}

var library = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

// librariesOf lists what a program loads, its loader included.
func librariesOf(path string) ([]string, error) {
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil, fmt.Errorf("ask which libraries %s needs: %w", path, err)
	}
	var paths []string
	for _, match := range library.FindAllStringSubmatch(string(out), -1) {
		paths = append(paths, filepath.Clean(match[1]))
	}
	return paths, nil
}
