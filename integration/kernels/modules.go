package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wantedModules are the modules of a machine, as folders or files below modules/kernel.
// Their dependencies are added.
var wantedModules = []string{
	"net/",
	"drivers/net/dummy.ko", "drivers/net/veth.ko",
	"crypto/", "arch/x86/crypto/", "arch/arm64/crypto/", "lib/", // checksums, mostly
}

// unwantedModules are excluded: the lab implements SCTP over raw sockets, which the
// kernel's own SCTP would disturb.
const unwantedModules = "net/sctp/"

// addModules adds a kernel's modules to the disk, with depmod's lists of them.
func addModules(a *archive, kernel string) error {
	dir := filepath.Join(kernel, "modules")
	list, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return fmt.Errorf("list the modules: %w", err)
	}
	needs := map[string][]string{}
	for line := range strings.Lines(string(list)) {
		file, needed, _ := strings.Cut(strings.TrimSpace(line), ":")
		needs[file] = strings.Fields(needed)
	}
	files := chosenModules(needs)
	var lines strings.Builder
	for _, file := range files {
		a.copy("/lib/modules/"+file, filepath.Join(dir, file))
		fmt.Fprintf(&lines, "%s: %s\n", file, strings.Join(needs[file], " "))
	}
	a.text("/lib/modules/modules.dep", lines.String())
	aliases, err := os.ReadFile(filepath.Join(dir, "modules.alias"))
	if err != nil {
		return fmt.Errorf("read the aliases of modules: %w", err)
	}
	a.text("/lib/modules/modules.alias", aliasesOf(string(aliases), files))
	return nil
}

// chosenModules returns the files of a machine's modules.
func chosenModules(needs map[string][]string) []string {
	var files []string
	for file, needed := range needs {
		below := strings.TrimPrefix(file, "kernel/")
		wanted := slices.ContainsFunc(wantedModules, func(prefix string) bool { return strings.HasPrefix(below, prefix) })
		if wanted && !strings.HasPrefix(below, unwantedModules) {
			files = append(files, file)
			files = append(files, needed...)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// aliasesOf returns the lines of modules.alias for these files.
func aliasesOf(aliases string, files []string) string {
	names := map[string]bool{}
	for _, file := range files {
		names[strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".ko"), "-", "_")] = true
	}
	var kept strings.Builder
	for line := range strings.Lines(aliases) {
		if fields := strings.Fields(line); len(fields) == 3 && names[fields[2]] {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
