package sftest

import (
	"maps"
	"slices"
	"strings"
)

// knownTypes are the values that the picklist of EventType has in an org,
// whether there are files of them or not.
var knownTypes = strings.Fields(`
	API ApexCallout ApexExecution ApexRestApi ApexSoap ApexTrigger ApexUnexpectedException ApiTotalUsage AsyncReportRun
	Attachment AuraRequest BlockedRedirect BulkApi BulkApi2 BulkApiRequest ChangeSetOperation CompositeApi
	CompositeApiSubrequest ConcurrentLongRunningApexLimit Console ContentDistribution ContentDocumentLink ContentTransfer
	ContinuationCalloutSummary CorsViolation CspViolation Dashboard DatabaseSave DocumentAttachmentDownloads
	ExternalCrossOrgCallout ExternalCustomApexCallout ExternalDataSourceCallout ExternalODataCallout FlowExecution
	FlowNavigation GroupMembership HostnameRedirects IdpEvent InsecureExternalAssets InsufficientAccess InvocableAction
	KnowledgeArticleView LightningError LightningInteraction LightningLogger LightningPageView LightningPerformance Login
	LoginAs Logout MetadataApiOperation MultiBlockReport NamedCredential OneCommerceUsage OrchestrationStep PackageInstall
	PermissionUpdate PlatformEncryption Pricing QueuedExecution Report ReportExport RestApi SalesforceLoginAs Sandbox
	Search SearchClick Sites TimeBasedWorkflow TransactionSecurity UITelemetryNavigationTiming UITelemetryResourceTiming
	URI UniqueQuery VisualforceRequest WaveChange WaveDownload WaveInteraction WavePerformance`)

// eventTypes is the picklist of EventType: the usual types, and those of files
// that a test has added. The caller holds mu.
func (o *Org) eventTypes() []map[string]any {
	names := map[string]bool{}
	for _, name := range slices.Concat(knownTypes, Types()) {
		names[name] = true
	}
	for _, row := range o.tables["eventlogfile"].visible(o.now()) {
		if name, ok := row["EventType"].(string); ok {
			names[name] = true
		}
	}
	var values []map[string]any
	for _, name := range slices.Sorted(maps.Keys(names)) {
		values = append(values, map[string]any{"active": true, "defaultValue": false, "label": name, "validFor": nil, "value": name})
	}
	return values
}
