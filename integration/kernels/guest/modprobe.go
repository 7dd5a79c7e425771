package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// modules is the folder of the kernel's modules, with depmod's lists of what each
// provides and needs.
const modules = "/lib/modules"

// modprobe loads a module for the kernel, which calls `modprobe -q -- ALIAS`.
func modprobe(args []string) error {
	if len(args) == 0 {
		return errors.New("missing module name")
	}
	wanted := strings.ReplaceAll(args[len(args)-1], "-", "_")
	needs, err := readNeeds()
	if err != nil {
		return err
	}
	names, err := providers(wanted)
	if err != nil {
		return err
	}
	loaded := 0
	for file := range needs {
		if !names[moduleName(file)] {
			continue
		}
		if err := needs.load(file); err != nil {
			return err
		}
		loaded++
	}
	if loaded == 0 {
		return fmt.Errorf("no module provides %s", wanted)
	}
	return nil
}

// needs are the files of modules, and for each the files that it depends on.
type needs map[string][]string

// readNeeds reads modules.dep.
func readNeeds() (needs, error) {
	needs := needs{}
	err := eachLine("modules.dep", func(line string) {
		file, needed, _ := strings.Cut(line, ":")
		needs[file] = strings.Fields(needed)
	})
	return needs, err
}

// load loads a module and what it needs.
func (n needs) load(file string) error {
	// depmod lists the module to load first as the last one.
	for _, needed := range slices.Backward(n[file]) {
		if err := load(needed); err != nil {
			return err
		}
	}
	return load(file)
}

// providers returns the names of the modules that provide an alias or have that name.
func providers(wanted string) (map[string]bool, error) {
	names := map[string]bool{wanted: true}
	err := eachLine("modules.alias", func(line string) {
		fields := strings.Fields(line) // alias PATTERN MODULE
		if len(fields) != 3 {
			return
		}
		if ok, err := path.Match(strings.ReplaceAll(fields[1], "-", "_"), wanted); ok && err == nil {
			names[fields[2]] = true
		}
	})
	return names, err
}

// moduleName returns the name of the module in a file.
func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".ko"), "-", "_")
}

func eachLine(list string, do func(line string)) error {
	text, err := os.ReadFile(filepath.Join(modules, list))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		do(strings.TrimSpace(line))
	}
	return nil
}

// load loads a module, unless it is loaded already.
func load(file string) error {
	f, err := os.Open(filepath.Join(modules, file))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load %s: %w", file, err)
	}
	return nil
}
