package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"kube-vmap/integration/kernels/plan"
)

// program is the path of kube-vmap in the machine, in a folder that all users can
// read.
const program = "/program/kube-vmap"

// environment is the environment of tests in the machine.
var environment = []string{
	"KUBE_VMAP_REQUIRE_KERNEL=1",
	"KUBE_VMAP_BINARY=" + program,
	"KUBE_VMAP_OWN_MACHINE=1",
}

// makeDisk writes all files of a machine.
func (m machine) makeDisk(path string, chosen []suite) error {
	a, err := newArchive(path)
	if err != nil {
		return err
	}
	// First, because they may make /lib and /sbin links.
	a.fail(addPrograms(a, m.kernel))
	a.copy("/init", filepath.Join(m.dir, guest))
	a.link("/sbin/modprobe", "/init")
	a.copy(program, filepath.Join(m.dir, proxy))
	p := plan.Plan{Talk: m.talk, Settings: append(environment[:len(environment):len(environment)], "KUBE_VMAP_FLAGS="+m.flags)}
	for _, s := range chosen {
		at := "/" + s.name
		p.Suites = append(p.Suites, plan.Suite{Package: module + s.name, Dir: at, Args: s.args()})
		a.copy(filepath.Join(at, plan.Program), filepath.Join(m.dir, s.program()))
		for _, data := range append([]string{filepath.Join(s.name, "testdata")}, s.reads...) {
			if exists(data) {
				a.copy("/"+data, data)
			}
		}
	}
	text, err := json.Marshal(p)
	a.fail(err)
	a.text(plan.Path, string(text))
	a.fail(addModules(a, m.kernel))
	return a.close()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
