package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"kube-vmap/integration/kernels/plan"
)

// program is where the machine has kube-vmap, in a folder that everybody may
// look into.
const program = "/program/kube-vmap"

// environment is what tests are told about the machine.
var environment = []string{
	"KUBE_VMAP_REQUIRE_KERNEL=1",
	"KUBE_VMAP_BINARY=" + program,
	"KUBE_VMAP_OWN_MACHINE=1",
}

// makeDisk writes all files that a machine has.
func (m machine) makeDisk(path string, chosen []suite, args func(suite) []string) error {
	a, err := newArchive(path)
	if err != nil {
		return err
	}
	a.copy("/init", filepath.Join(m.dir, guest))
	a.link("/sbin/modprobe", "/init")
	a.copy(program, filepath.Join(m.dir, proxy))
	p := plan.Plan{Settings: environment}
	for _, s := range chosen {
		at := "/" + s.name
		p.Suites = append(p.Suites, plan.Suite{Package: module + s.name, Dir: at, Args: args(s)})
		a.copy(filepath.Join(at, plan.Program), filepath.Join(m.dir, s.program()))
		for _, data := range append([]string{filepath.Join(s.name, "testdata")}, s.reads...) {
			if exists(data) {
				a.copy("/"+data, data)
			}
		}
	}
	for _, release := range []string{"bullseye", "trixie"} { // where tests look for other versions of nft
		if dir := filepath.Join(".cache/nft", release); exists(dir) {
			a.copy("/"+dir, dir)
		}
	}
	text, err := json.Marshal(p)
	a.fail(err)
	a.text(plan.Path, string(text))
	a.fail(addPrograms(a))
	a.fail(addModules(a, m.kernel))
	return a.close()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
