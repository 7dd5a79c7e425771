package shadow

import "testing"

// TestNothingDiffersFromKubeProxyButWhatIsIntended compares a whole scene.
func TestNothingDiffersFromKubeProxyButWhatIsIntended(t *testing.T) {
	t.Parallel()
	r := newRig(t, append(scene(), intended()...))
	report, code := r.settled("--all")
	for _, line := range unintended(report) {
		t.Error(line)
	}
	if code != 0 || report.Pending != 0 {
		t.Errorf("exit code %d, %d differences are pending", code, report.Pending)
	}
	t.Logf("%d Service ports, %d addresses, %d packets; intended: %v", report.Services, report.Frontends, report.Packets, report.Intended)
}
