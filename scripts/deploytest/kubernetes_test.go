package deploytest

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
)

const manifests = root + "/scripts/kubernetes/sf2loki.yaml"

// objects decodes the manifests by the types of Kubernetes: a field that is
// unknown, or there twice, is an error.
func objects(t *testing.T) (all []runtime.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
	} {
		must(t, add(scheme))
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, text := range strings.Split(read(t, manifests), "\n---\n") {
		o, _, err := decoder.Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%.200s", err, text)
		}
		all = append(all, o)
	}
	if _, _, err := decoder.Decode([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndatum: {}\n"), nil, nil); err == nil {
		t.Error("an unknown field is not found")
	}
	return all
}

// of are those of one type.
func of[T runtime.Object](all []runtime.Object) (some []T) {
	for _, o := range all {
		if one, ok := o.(T); ok {
			some = append(some, one)
		}
	}
	return some
}

func only[T runtime.Object](t *testing.T, all []runtime.Object) T {
	t.Helper()
	some := of[T](all)
	if len(some) != 1 {
		t.Fatalf("%d of %T", len(some), *new(T))
	}
	return some[0]
}

func pods(t *testing.T, all []runtime.Object) map[string]corev1.PodTemplateSpec {
	t.Helper()
	return map[string]corev1.PodTemplateSpec{
		"deployment": only[*appsv1.Deployment](t, all).Spec.Template,
		"cron job":   only[*batchv1.CronJob](t, all).Spec.JobTemplate.Spec.Template,
	}
}

// What pods name is there, and nothing in them has more rights than it needs:
// the restricted profile of the pod security standards, and a root that is
// only read.
func TestPods(t *testing.T) {
	all := objects(t)
	named := map[string]bool{}
	for _, o := range of[*corev1.ConfigMap](all) {
		named["configMap "+o.Name] = true
	}
	for _, o := range of[*corev1.PersistentVolumeClaim](all) {
		named["claim "+o.Name] = true
	}
	account := only[*corev1.ServiceAccount](t, all).Name
	if mounted := only[*corev1.ServiceAccount](t, all).AutomountServiceAccountToken; mounted == nil || *mounted {
		t.Error("every pod of the account has its token")
	}
	for kind, pod := range pods(t, all) {
		spec := pod.Spec
		context := spec.SecurityContext
		if context == nil || context.RunAsNonRoot == nil || !*context.RunAsNonRoot || *context.RunAsUser == 0 || context.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: security context %+v", kind, context)
		}
		if spec.ServiceAccountName != account || *spec.TerminationGracePeriodSeconds < 45 {
			t.Errorf("%s: account %s, grace %d", kind, spec.ServiceAccountName, *spec.TerminationGracePeriodSeconds)
		}
		// #151: who asks the server for the lease has a token, nobody else.
		asks := strings.Contains(strings.Join(spec.Containers[0].Command, " "), "k8s://")
		if mounted := spec.AutomountServiceAccountToken; mounted == nil || *mounted != asks {
			t.Errorf("%s: a token is mounted: %v, and needed: %v", kind, mounted, asks)
		}
		volumes := map[string]bool{}
		for _, v := range spec.Volumes {
			volumes[v.Name] = true
			switch {
			case v.ConfigMap != nil && !named["configMap "+v.ConfigMap.Name], v.PersistentVolumeClaim != nil && !named["claim "+v.PersistentVolumeClaim.ClaimName]:
				t.Errorf("%s: volume %s is of nothing that is there", kind, v.Name)
			case v.HostPath != nil:
				t.Errorf("%s: volume %s is the host's", kind, v.Name)
			}
		}
		for _, c := range spec.Containers {
			checkContainer(t, kind, c, volumes, named)
		}
	}
}

func checkContainer(t *testing.T, kind string, c corev1.Container, volumes, named map[string]bool) {
	t.Helper()
	s := c.SecurityContext
	if s == nil || *s.AllowPrivilegeEscalation || *s.Privileged || !*s.ReadOnlyRootFilesystem || !reflect.DeepEqual(s.Capabilities, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}) {
		t.Errorf("%s: security context %+v", kind, s)
	}
	if !regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+$`).MatchString(c.Image) { // #57
		t.Errorf("%s: image %s is not that of a release", kind, c.Image)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s: resources %+v", kind, c.Resources)
	}
	mounted := []string{}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s: no volume %s", kind, m.Name)
		}
		if !m.ReadOnly {
			mounted = append(mounted, m.MountPath)
		}
	}
	for _, dir := range []string{"/run/sf2loki", "/var/tmp", "/var/spool/sf2loki"} {
		if !slices.Contains(mounted, dir) {
			t.Errorf("%s: %s cannot be written", kind, dir)
		}
	}
	for _, from := range c.EnvFrom {
		if !named["configMap "+from.ConfigMapRef.Name] {
			t.Errorf("%s: no config map %s", kind, from.ConfigMapRef.Name)
		}
	}
	for _, p := range c.Ports {
		if problems := validation.IsValidPortName(p.Name); len(problems) > 0 {
			t.Errorf("%s: port %s: %v", kind, p.Name, problems)
		}
	}
}

// A standby answers 503 to /readyz for as long as it stands by, and a leader
// when the org cannot be reached: no probe may ask for it.
func TestProbesLeaveStandbysAlone(t *testing.T) {
	c := only[*appsv1.Deployment](t, objects(t)).Spec.Template.Spec.Containers[0]
	probes := 0
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p == nil {
			continue
		}
		probes++
		if p.HTTPGet == nil || p.HTTPGet.Path != "/healthz" || p.HTTPGet.Port.String() != "lease" {
			t.Errorf("probe %+v", p.HTTPGet)
		}
	}
	if probes < 2 || c.Ports[0].Name != "lease" || !slices.Contains(c.Command, "--metrics-listen=0.0.0.0:9100") {
		t.Errorf("%d probes, ports %v, command %v", probes, c.Ports, c.Command)
	}
}

// The role allows what a lease asks of the server, on the lease that the
// command names, and nothing more.
func TestRole(t *testing.T) {
	all := objects(t)
	role, binding := only[*rbacv1.Role](t, all), only[*rbacv1.RoleBinding](t, all)
	command := only[*appsv1.Deployment](t, all).Spec.Template.Spec.Containers[0].Command
	if want := "k8s://" + role.Namespace + "/" + role.Rules[0].ResourceNames[0]; command[2] != want {
		t.Errorf("the lease is %s, the role allows %s", command[2], want)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: role.Rules[0].ResourceNames, Verbs: []string{"get", "update"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
	}
	if !reflect.DeepEqual(role.Rules, want) {
		t.Errorf("rules %+v", role.Rules)
	}
	if len(binding.Subjects) != 1 || binding.Subjects[0].Kind != "ServiceAccount" || binding.Subjects[0].Name == "default" || binding.Subjects[0].Namespace != role.Namespace { // #154
		t.Errorf("bound are %+v", binding.Subjects)
	}
	if binding.RoleRef.Name != role.Name || binding.Subjects[0].Name != only[*corev1.ServiceAccount](t, all).Name {
		t.Errorf("bound are %+v", binding)
	}
}

// The fence is the document that the lane writes, and the supervisor finds
// nothing wrong with the lane's file.
func TestLaneOfThePods(t *testing.T) {
	b := newBench(t)
	all := objects(t)
	command := only[*appsv1.Deployment](t, all).Spec.Template.Spec.Containers[0].Command
	var text string
	for _, o := range of[*corev1.ConfigMap](all) {
		text += o.Data["prod.conf"]
	}
	fence := strings.TrimPrefix(command[3], "--fence=")
	if !strings.Contains(text, "\nSF2LOKI_STATE="+fence+"\n") {
		t.Errorf("the fence is %s, the lane says\n%s", fence, text)
	}
	if last := command[len(command)-1]; last != "/etc/sf2loki/prod.conf" || command[len(command)-3] != "sf2loki" {
		t.Errorf("the command is %v", command)
	}
	write(t, b.Path("prod.conf"), strings.ReplaceAll(text, "/var/spool/sf2loki", b.Dir), 0o600)
	write(t, b.Path("client-secret"), "secret\n", 0o600)
	supervisor, err := filepath.Abs(root + "/scripts/sf2loki")
	must(t, err)
	b.Env = []string{"HOME=" + b.Dir, "CREDENTIALS_DIRECTORY=" + b.Dir, "RUNTIME_DIRECTORY=" + b.Path("run"),
		"AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_EC2_METADATA_DISABLED=true"}
	b.sh(0, b.programs("v1.0.0"), supervisor+" check ./prod.conf")
}

// The nightly job's script does its work, with a document in a file instead of
// the bucket.
func TestCronJob(t *testing.T) {
	b := newBench(t)
	c := only[*batchv1.CronJob](t, objects(t)).Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	if c.Command[0] != "sh" || c.Command[1] != "-c" {
		t.Fatalf("the command is %v", c.Command)
	}
	script := regexp.MustCompile(`state='[^']*'`).ReplaceAllString(c.Command[2], "state=positions.json")
	script = strings.ReplaceAll(script, "/run/sf2loki", b.Dir)
	must(t, os.Rename(b.Path("key.pem"), b.Path("other.pem")))
	write(t, b.Path("client-secret"), b.org.ClientSecret, 0o600)
	b.Env = []string{"HOME=" + b.Dir, "CREDENTIALS_DIRECTORY=" + b.Dir}
	for _, o := range of[*corev1.ConfigMap](objects(t)) {
		if o.Name != c.EnvFrom[0].ConfigMapRef.Name {
			continue
		}
		for name, value := range o.Data {
			value = strings.NewReplacer("https://example.my.salesforce.com", b.org.URL, "3MVG9example", b.org.ClientID,
				"https://loki.example.org", b.loki.URL, "/var/spool/sf2loki", b.Dir).Replace(value)
			b.Env = append(b.Env, name+"="+value)
		}
	}
	b.threeDaysAgo(15)
	for range 2 {
		b.sh(0, b.programs("v1.0.0"), script)
		if got := b.stored(); got != 15 {
			t.Errorf("%d entries", got)
		}
	}
}

// The image has what its description copies, and is not root's.
func TestContainerfile(t *testing.T) {
	text := read(t, root+"/scripts/kubernetes/Containerfile")
	user, bases := "", 0
	pinned := regexp.MustCompile(`^[a-z0-9./-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}$`)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "FROM":
			bases++
			if !pinned.MatchString(f[1]) { // #71-5
				t.Errorf("what it is built from may change: %s", line)
			}
		case len(f) > 2 && f[0] == "COPY" && (user != "" || strings.Contains(line, "--chown")): // #152
			t.Errorf("it is not root's: %s", line)
		case len(f) > 1 && f[0] == "USER":
			user = f[1]
		case len(f) > 2 && f[0] == "COPY":
			for _, source := range f[1 : len(f)-1] {
				if strings.HasPrefix(source, "--") || source == "bin/" || strings.Contains(line, "--from=") {
					continue
				}
				if _, err := os.Stat(filepath.Join(root, source)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if bases == 0 {
		t.Error("the image has no base")
	}
	for kind, pod := range pods(t, objects(t)) {
		if want := strings.Split(user, ":")[0]; want == "0" || want != strconv.FormatInt(*pod.Spec.SecurityContext.RunAsUser, 10) {
			t.Errorf("%s runs as %d, the image as %s", kind, *pod.Spec.SecurityContext.RunAsUser, user)
		}
	}
}
