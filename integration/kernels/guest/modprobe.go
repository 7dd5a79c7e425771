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

// modules is where the kernel's modules are, with depmod's lists of what each
// provides and needs.
const modules = "/lib/modules"

// modprobe is what the kernel calls when it needs something that a module may
// provide: `modprobe -q -- ALIAS`.
func modprobe(args []string) error {
	if len(args) == 0 {
		return errors.New("no module is named")
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

// needs are the files of modules that there are, and which others each needs.
type needs map[string][]string

// readNeeds reads them.
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
	// depmod lists what is to be loaded first last.
	for _, needed := range slices.Backward(n[file]) {
		if err := load(needed); err != nil {
			return err
		}
	}
	return load(file)
}

// providers are the names of the modules which provide an alias, or have it as
// their name.
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

// moduleName is the name of the module in a file.
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

// load loads a module, which may be there already.
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
