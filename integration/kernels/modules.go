package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// early matches the modules that are loaded before the first test: those for rules, flows
// and test networks. If the kernel loaded them on demand, the first program that loads a
// rule set would wait for all of them, which takes longer on an emulated processor than
// tests wait. Connection tracking helpers and br_netfilter are not among them: they
// change what happens to packets.
var early = regexp.MustCompile(`^kernel/(?:` +
	`net/(?:netfilter|ipv[46]/netfilter)/(?:nf_tables|nft_\w+|nf_conntrack|nf_conntrack_netlink|nf_nat|nf_reject_\w+)` +
	`|net/packet/af_packet|drivers/net/(?:dummy|veth))\.ko$`)

// addModules adds a kernel's modules to the disk, in place of another one's, with depmod's lists
// of all. It returns the names of those to load early.
func (d disk) addModules(kernel string) (load []string, err error) {
	const to = "/lib/modules"
	dir := filepath.Join(kernel, "modules")
	list, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("list the modules: %w", err)
	}
	needs := map[string][]string{}
	for line := range strings.Lines(string(list)) {
		file, needed, _ := strings.Cut(strings.TrimSpace(line), ":")
		needs[file] = strings.Fields(needed)
		if early.MatchString(file) {
			load = append(load, strings.TrimSuffix(filepath.Base(file), ".ko"))
		}
	}
	lists, err := filepath.Glob(filepath.Join(dir, "modules.*"))
	if err != nil {
		return nil, err
	}
	files := chosenModules(needs)
	for _, list := range lists {
		files = append(files, filepath.Base(list))
	}
	if err := errors.Join(os.RemoveAll(d.path(to)), os.MkdirAll(d.path(to), 0o755)); err != nil {
		return nil, err
	}
	return load, d.copy(to, dir, files...)
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
