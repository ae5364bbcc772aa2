"""Bug reports: a zip file without prompts, answers, file contents or secrets."""

from teamwright.views.bug_report.archive import ReportPart, report_path, save_bug_report
from teamwright.views.bug_report.collect import ReportScope, collect_parts

__all__ = ["ReportPart", "ReportScope", "collect_parts", "report_path", "save_bug_report"]
