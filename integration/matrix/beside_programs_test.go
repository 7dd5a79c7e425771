package matrix

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// otherPrograms is the folder of the programs that .ci/other-programs builds and fetches.
const otherPrograms = "../../.cache/other-programs"

// otherProgram returns the absolute path of a file there. It skips the test if there is none.
func (s *scene) otherProgram(name string) string {
	s.t.Helper()
	path, err := filepath.Abs(filepath.Join(otherPrograms, name))
	s.must(err)
	if _, err := os.Stat(path); err != nil {
		s.t.Skipf("%s cannot be had, see .ci/other-programs", name)
	}
	return path
}

// rules runs the program of integration/otherprograms.
func (s *scene) rules(args ...string) {
	s.t.Helper()
	s.command("", s.otherProgram("bin/rules"), args...)
}

// clusterRanges are the ranges of all pods.
const clusterRanges = "10.244.0.0/16,fd00:10:244::/48"

// podRanges are the ranges of the pods of node-1.
func podRanges() string {
	return lab.PodRanges[model.IPv4].String() + "," + lab.PodRanges[model.IPv6].String()
}

func TestBesideFlannel(t *testing.T) {
	for _, mode := range []string{"iptables", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			beside(t, program{load: func(s *scene) { s.rules("flannel", mode, podRanges(), clusterRanges) }})
		})
	}
}

func TestBesideTailscale(t *testing.T) {
	for _, mode := range []string{"iptables", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			beside(t, program{load: func(s *scene) { s.rules("tailscale", mode) }})
		})
	}
}

// TestBesideVPCCNI has rules that overwrite the whole mark of packets. Interfaces of pods
// have the prefix that the lab gives them.
func TestBesideVPCCNI(t *testing.T) {
	beside(t, program{load: func(s *scene) {
		s.command("", "env", "AWS_VPC_K8S_CNI_VETHPREFIX=veth", s.otherProgram("bin/rules"),
			"vpc-cni", "eth0", lab.OutsideRanges[model.IPv4].String()+",10.244.0.0/16")
		if !slices.ContainsFunc(s.otherTables(), func(name string) bool { return strings.HasSuffix(name, " aws-cni") }) {
			s.t.Error("no table aws-cni")
		}
	}})
}
